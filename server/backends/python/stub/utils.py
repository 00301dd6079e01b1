# SPDX-License-Identifier: Apache-2.0
"""The module that a model imports as `triton_python_backend_utils`: Triton's names with Triton's meanings.

Tensors are in CPU memory only, requests cannot be rescheduled, and spans are created in the server only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hypersonic.server.backends.python.stub.autocomplete import ModelConfig
from hypersonic.server.backends.python.stub.calls import PROCESS
from hypersonic.server.backends.python.stub.errors import TritonError, TritonModelException
from hypersonic.server.backends.python.stub.logger import Logger
from hypersonic.server.backends.python.stub.metric import Metric, MetricFamily
from hypersonic.server.backends.python.stub.request import InferenceRequest, InferenceTrace
from hypersonic.server.backends.python.stub.response import (
    RESPONSE_COMPLETE_FINAL,
    InferenceResponse,
    InferenceResponseSender,
)
from hypersonic.server.backends.python.stub.tensor import (
    NAMES,
    NUMPY,
    Tensor,
    deserialize_bytes_tensor,
    serialize_byte_tensor,
)
from hypersonic.server.core.datatype import DATATYPES_BY_ENUM

__all__ = [
    "TRITON_STRING_TO_NUMPY",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "Metric",
    "MetricFamily",
    "ModelConfig",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_model_dir",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "using_decoupled_model_transaction_policy",
]

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = RESPONSE_COMPLETE_FINAL
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

#: config.pbtxt's name of a datatype -> numpy's scalar type; numpy does not have BF16
TRITON_STRING_TO_NUMPY: dict[str, type[Any]] = {
    enum: NUMPY[datatype.name].type for enum, datatype in DATATYPES_BY_ENUM.items() if datatype.name in NUMPY
}


def triton_string_to_numpy(triton_type_string: str) -> type[Any]:
    """Return numpy's scalar type for a name such as "TYPE_FP32". Raises KeyError."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type: int) -> type[Any] | None:
    """Return numpy's scalar type for Triton's number of a datatype; None for an unknown number."""
    name = NAMES[data_type] if 0 <= data_type < len(NAMES) else ""
    return NUMPY[name].type if name in NUMPY else None


def numpy_to_triton_type(data_type: Any) -> int | None:
    """Return Triton's number for a numpy type; None for a type that Triton does not have."""
    dtype = np.dtype(data_type)
    if dtype.kind == "S":
        return NAMES.index("BYTES")
    return next((code for code, name in enumerate(NAMES) if name in NUMPY and NUMPY[name] == dtype), None)


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """Return an input of the request, None if it has no input of that name."""
    return next((tensor for tensor in inference_request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """Return an output of the response, None if it has no output of that name."""
    return next((tensor for tensor in inference_response.output_tensors() if tensor.name() == name), None)


def get_input_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return one input of a model configuration, None if there is none of that name."""
    return next((tensor for tensor in model_config.get("input", ()) if tensor["name"] == name), None)


def get_output_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return one output of a model configuration, None if there is none of that name."""
    return next((tensor for tensor in model_config.get("output", ()) if tensor["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config: Mapping[str, Any]) -> bool:
    """Return whether the model is decoupled: it may answer a request any number of times."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def get_model_dir() -> str:
    """Return the version directory, which contains model.py."""
    return PROCESS.model_directory
