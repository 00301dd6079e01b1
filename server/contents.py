# SPDX-License-Identifier: Apache-2.0
"""A parsed ModelInferRequest -> InferRequest: parameters, and tensors that came typed instead of raw.

Typed contents are for compatibility only: a list of Python floats costs a thousand times what raw bytes do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from hypersonic.server.datatype import DATATYPES, DATATYPES_BY_CONTENTS, Datatype
from hypersonic.server.errors import InvalidRequestError, UnsupportedError
from hypersonic.server.parameters import EMPTY_FINAL_RESPONSE, sort_parameters
from hypersonic.server.request import InferRequest, InputTensor, WantedOutput

if TYPE_CHECKING:
    from hypersonic.server.shm import Span

SHM_DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."

#: reserved request parameters: the fields of InferParameter that may carry each
_RESERVED = {
    "sequence_id": ("int64_param", "string_param"),
    "sequence_start": ("bool_param",),
    "sequence_end": ("bool_param",),
    "priority": ("int64_param", "uint64_param"),
    "timeout": ("int64_param",),
    EMPTY_FINAL_RESPONSE: ("bool_param",),
}


class Regions(Protocol):
    """Shared memory as requests name it: server/shm.py, or nothing where it is not allowed."""

    def read(self, name: str, offset: int, size_bytes: int) -> memoryview:
        """A copy of these bytes. Raises ServerError."""

    def span(self, name: str, offset: int, size_bytes: int) -> Span:
        """Where an output is to go. Raises ServerError."""


def to_infer_request(message: ModelInferRequest, raw: Sequence[memoryview], regions: Regions | None = None) -> InferRequest:
    """Raises InvalidRequestError or UnsupportedError with Triton's text; shapes and sizes are not looked at yet."""
    inputs = tuple(_inputs(message, raw, regions))
    outputs = tuple([_output(output, regions) for output in message.outputs]) if message.outputs else ()
    if not message.parameters:
        return InferRequest(message.id, inputs, outputs)
    parameters = sort_parameters(_parameters(message))
    return InferRequest(
        message.id,
        inputs,
        outputs,
        timeout_us=parameters.timeout_us,
        priority=parameters.priority,
        sequence=parameters.sequence,
        parameters=parameters.custom,
    )


def _parameters(message: ModelInferRequest) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, parameter in message.parameters.items():
        which = parameter.WhichOneof("parameter_choice")
        if key.startswith("triton_") and key != EMPTY_FINAL_RESPONSE:
            raise InvalidRequestError(
                "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
                f"'triton_' are allowed: {EMPTY_FINAL_RESPONSE}"
            )
        if which is None:
            raise InvalidRequestError(
                f"invalid value type for '{key}' parameter, expected int64_param, bool_param, or string_param."
            )
        allowed = _RESERVED.get(key)
        if allowed and which not in allowed:
            raise InvalidRequestError(f"invalid value type for '{key}' parameter, expected {' or '.join(allowed)}.")
        values[key] = getattr(parameter, which)
        if key == "priority" and values[key] < 0:
            raise InvalidRequestError("invalid value for 'priority', expected value >= 0.")
    return values


def _inputs(message: ModelInferRequest, raw: Sequence[memoryview], regions: Regions | None) -> Iterator[InputTensor]:
    model = message.model_name
    used = 0
    for tensor in message.inputs:
        name = tensor.name
        data: memoryview | None = None
        if tensor.parameters and "shared_memory_region" in tensor.parameters:
            if tensor.HasField("contents"):
                raise InvalidRequestError(
                    f"unexpected 'content' provided when using shared memory for input tensor '{name}' for model '{model}'"
                )
            shared = _regions(regions)
            data = shared.read(*_place(tensor.parameters, name))
        elif raw:
            if tensor.HasField("contents"):
                raise InvalidRequestError(
                    f"contents field must not be specified when using raw_input_contents for '{name}' for model '{model}'"
                )
            if used < len(raw):
                data = raw[used]
                used += 1
        elif tensor.HasField("contents"):
            data = _typed(tensor.contents, name, tensor.datatype, model)
        if data is None:
            raise InvalidRequestError(f"unable to find data for input tensor '{name}' for model '{model}' in request.")
        yield InputTensor(name, tensor.datatype, tuple(tensor.shape), data)
    if used < len(raw):
        raise InvalidRequestError(f"expected {used} raw_input_contents, one per input, but got {len(raw)}")


def _regions(regions: Regions | None) -> Regions:
    if regions is None:
        raise UnsupportedError(SHM_DISABLED)
    return regions


def _place(parameters: Any, name: str) -> tuple[str, int, int]:
    """(region, offset, size in bytes). Raises InvalidRequestError."""
    region = parameters["shared_memory_region"]
    if region.WhichOneof("parameter_choice") != "string_param":
        raise InvalidRequestError(
            f"invalid value type for 'shared_memory_region' parameter for tensor '{name}', expected string_param."
        )
    size = _int64(parameters, "shared_memory_byte_size", name)
    if size is None:
        raise InvalidRequestError(f"'shared_memory_byte_size' is needed beside 'shared_memory_region' for tensor '{name}'")
    return region.string_param, _int64(parameters, "shared_memory_offset", name) or 0, size


def _int64(parameters: Any, key: str, name: str) -> int | None:
    """A parameter's value, None when it is not given. Raises InvalidRequestError unless it is a non-negative int64."""
    if key not in parameters:
        return None
    parameter = parameters[key]
    if parameter.WhichOneof("parameter_choice") != "int64_param" or parameter.int64_param < 0:
        raise InvalidRequestError(f"invalid value for '{key}' parameter for tensor '{name}', expected int64_param, 0 or more.")
    return int(parameter.int64_param)


def _classes(parameters: Any) -> int:
    """The output parameter `classification`. Raises InvalidRequestError with Triton's texts."""
    if parameters["classification"].WhichOneof("parameter_choice") != "int64_param":
        raise InvalidRequestError("invalid value type for 'classification' parameter, expected int64_param")
    if parameters["classification"].int64_param < 1:  # 0 too, for all that the text says
        raise InvalidRequestError("invalid value for 'classification' parameter, expected >= 0")
    return int(parameters["classification"].int64_param)


def _output(output: ModelInferRequest.InferRequestedOutputTensor, regions: Regions | None) -> WantedOutput:
    if not output.parameters:
        return WantedOutput(output.name)
    count = _classes(output.parameters) if "classification" in output.parameters else 0
    if "shared_memory_region" not in output.parameters:
        return WantedOutput(output.name, count)
    shared = _regions(regions)
    if count:
        raise InvalidRequestError("unexpected 'classification' for an output in shared memory: ask for one of them")
    return WantedOutput(output.name, region=shared.span(*_place(output.parameters, output.name)))


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
