# SPDX-License-Identifier: Apache-2.0
"""A parsed ModelInferRequest -> InferRequest: parameters, and tensors that came typed instead of raw.

Typed contents are for compatibility only: a list of Python floats costs a thousand times what raw bytes do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from hypersonic.server.datatype import DATATYPES, DATATYPES_BY_CONTENTS, Datatype
from hypersonic.server.errors import InvalidRequestError, UnsupportedError
from hypersonic.server.request import InferRequest, InputTensor

_EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
#: reserved request parameters: the fields of InferParameter that may carry each
_RESERVED = {
    "sequence_id": ("int64_param", "string_param"),
    "sequence_start": ("bool_param",),
    "sequence_end": ("bool_param",),
    "priority": ("int64_param", "uint64_param"),
    "timeout": ("int64_param",),
    _EMPTY_FINAL_RESPONSE: ("bool_param",),
}


def to_infer_request(message: ModelInferRequest, raw: Sequence[memoryview]) -> InferRequest:
    """Raises InvalidRequestError or UnsupportedError with Triton's text; shapes and sizes are not looked at yet."""
    parameters = _parameters(message) if message.parameters else {}
    if raw and len(raw) > len(message.inputs):
        raise InvalidRequestError(f"expected {len(message.inputs)} raw_input_contents, one per input, but got {len(raw)}")
    return InferRequest(
        id=message.id,
        inputs=tuple(_inputs(message, raw)),
        outputs=tuple(_outputs(message)),
        timeout_us=max(0, parameters.get("timeout", 0)),
        priority=max(0, parameters.get("priority", 0)),
    )


def _parameters(message: ModelInferRequest) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, parameter in message.parameters.items():
        which = parameter.WhichOneof("parameter_choice")
        if key.startswith("triton_") and key != _EMPTY_FINAL_RESPONSE:
            raise InvalidRequestError(
                "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
                f"'triton_' are allowed: {_EMPTY_FINAL_RESPONSE}"
            )
        if which is None:
            raise InvalidRequestError(
                f"invalid value type for '{key}' parameter, expected int64_param, bool_param, or string_param."
            )
        allowed = _RESERVED.get(key)
        if allowed and which not in allowed:
            raise InvalidRequestError(f"invalid value type for '{key}' parameter, expected {' or '.join(allowed)}.")
        values[key] = getattr(parameter, which)
    return values


def _inputs(message: ModelInferRequest, raw: Sequence[memoryview]) -> Iterator[InputTensor]:
    model = message.model_name
    for index, tensor in enumerate(message.inputs):
        name = tensor.name
        if tensor.parameters and "shared_memory_region" in tensor.parameters:
            raise UnsupportedError("Client shared memory is disabled: this server takes tensors in the request only.")
        if raw and tensor.HasField("contents"):
            raise InvalidRequestError(
                f"contents field must not be specified when using raw_input_contents for '{name}' for model '{model}'"
            )
        if raw:
            data = raw[index] if index < len(raw) else None
        else:
            data = _typed(tensor.contents, name, tensor.datatype, model) if tensor.HasField("contents") else None
        if data is None:
            raise InvalidRequestError(f"unable to find data for input tensor '{name}' for model '{model}' in request.")
        yield InputTensor(name, tensor.datatype, tuple(tensor.shape), data)


def _outputs(message: ModelInferRequest) -> Iterator[str]:
    for output in message.outputs:
        if output.parameters:
            if "shared_memory_region" in output.parameters:
                raise UnsupportedError("Client shared memory is disabled: this server sends tensors in the answer only.")
            if "classification" in output.parameters:
                raise UnsupportedError("classification is not supported; ask for the output without it and sort at the client")
        yield output.name


def _typed(contents: InferTensorContents, name: str, datatype: str, model: str) -> memoryview | None:
    """The bytes that raw_input_contents would have carried; None for a datatype that cannot travel typed."""
    expected = DATATYPES.get(datatype)
    if expected is None or not expected.contents:
        return None
    for field, _ in contents.ListFields():
        if field.name != expected.contents:
            raise InvalidRequestError(
                f"unexpected explicit tensor data for input tensor '{name}' for model '{model}' "
                f"of type '{DATATYPES_BY_CONTENTS[field.name].name}', expected datatype '{datatype}'"
            )
    return _encode(getattr(contents, expected.contents), expected, name)


def _encode(values: Sequence[Any], datatype: Datatype, name: str) -> memoryview:
    if datatype.name == "BYTES":
        return memoryview(b"".join(struct.pack("<I", len(value)) + value for value in values))
    if np.dtype(datatype.numpy).kind in "iu":
        low, high = np.iinfo(datatype.numpy).min, np.iinfo(datatype.numpy).max
        for value in values:
            if not low <= value <= high:
                raise InvalidRequestError(f"input '{name}': {value} is not a {datatype.name}, which holds {low} to {high}")
    return memoryview(np.array(values, dtype=datatype.numpy).tobytes())
