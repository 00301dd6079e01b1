# SPDX-License-Identifier: Apache-2.0
"""Conversion of a parsed ModelInferRequest to an InferRequest: parameters, and tensors in typed or raw contents.

Typed contents are for compatibility only: integers cost a hundred times as much as raw bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from hypersonic.server.core.datatype import DATATYPES, DATATYPES_BY_CONTENTS, Datatype
from hypersonic.server.core.inference.parameters import EMPTY_FINAL_RESPONSE, sort_parameters
from hypersonic.server.core.inference.request import InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.inference.shm import HeldRegions, allowed
from hypersonic.server.errors import InvalidRequestError

_PIECE_ELEMENTS = 1 << 16
_LENGTH = struct.Struct("<I")
#: parameters of a tensor in shared memory
_REGION, _OFFSET, _SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"
#: reserved request parameters -> the fields of InferParameter that may hold each
_RESERVED = {
    "sequence_id": ("int64_param", "string_param"),
    "sequence_start": ("bool_param",),
    "sequence_end": ("bool_param",),
    "priority": ("int64_param", "uint64_param"),
    "timeout": ("int64_param",),
    EMPTY_FINAL_RESPONSE: ("bool_param",),
}


def to_infer_request(message: ModelInferRequest, raw: Sequence[memoryview], regions: HeldRegions | None = None) -> InferRequest:
    """Convert a message.

    Shapes and sizes are checked later, by check().

    Args:
        raw: raw_input_contents.
        regions: clients' shared memory, None if it is not allowed.

    Raises:
        InvalidRequestError: With Triton's text.
        UnsupportedError: With Triton's text.
    """
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


def _inputs(message: ModelInferRequest, raw: Sequence[memoryview], regions: HeldRegions | None) -> Iterator[InputTensor]:
    model = message.model_name
    used = 0
    for tensor in message.inputs:
        name = tensor.name
        data: memoryview | None = None
        shared = _shared_input(tensor, model, regions) if tensor.parameters else None
        if shared is not None:
            data = shared
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


def _shared_input(tensor: Any, model: str, regions: HeldRegions | None) -> memoryview | None:
    """Return a copy of an input's bytes in shared memory, None for an input that is not in shared memory."""
    if _REGION in tensor.parameters:
        allowed(regions)
    place = _place(tensor.parameters, tensor.name)
    if place is None:
        return None
    if tensor.HasField("contents"):
        raise InvalidRequestError(
            f"unexpected 'content' provided when using shared memory for input tensor '{tensor.name}' for model '{model}'"
        )
    return allowed(regions).read(*place)


def _place(parameters: Any, name: str) -> tuple[str, int, int] | None:
    """Return (region, offset, size in bytes) of a tensor in shared memory, otherwise None.

    Raises InvalidRequestError; Triton's texts.
    """
    if _REGION not in parameters:
        for key in (_OFFSET, _SIZE):
            if key in parameters:
                raise InvalidRequestError(f"'{key}' can not be specified without '{_REGION}' parameter for tensor '{name}'")
        return None
    region = _shared(parameters, _REGION, "string_param", name)
    offset = _shared(parameters, _OFFSET, "int64_param", name) if _OFFSET in parameters else 0
    if _SIZE not in parameters:
        raise InvalidRequestError(f"'{_SIZE}' must be specified along with '{_REGION}' parameter for tensor '{name}'")
    return region, offset, _shared(parameters, _SIZE, "int64_param", name)


def _shared(parameters: Any, key: str, kind: str, name: str) -> Any:
    """Return the value of one of the three parameters. Whether it lies within the region is checked by the region."""
    parameter = parameters[key]
    if parameter.WhichOneof("parameter_choice") != kind:
        raise InvalidRequestError(f"invalid value type for '{key}' parameter for tensor '{name}', expected {kind}.")
    return getattr(parameter, kind)


def _classes(parameters: Any) -> int:
    """Return the output parameter `classification`, 0 without one. Raises InvalidRequestError with Triton's texts."""
    if "classification" not in parameters:
        return 0
    if parameters["classification"].WhichOneof("parameter_choice") != "int64_param":
        raise InvalidRequestError("invalid value type for 'classification' parameter, expected int64_param")
    if parameters["classification"].int64_param < 1:  # also 0, despite the text
        raise InvalidRequestError("invalid value for 'classification' parameter, expected >= 0")
    return int(parameters["classification"].int64_param)


def _output(output: ModelInferRequest.InferRequestedOutputTensor, regions: HeldRegions | None) -> WantedOutput:
    if not output.parameters:
        return WantedOutput(output.name)
    if _REGION in output.parameters:
        allowed(regions)
    place = _place(output.parameters, output.name)
    count = _classes(output.parameters)
    if place is None:
        return WantedOutput(output.name, count)
    if count:
        raise InvalidRequestError(f"output can't set both '{_REGION}' and 'classification'")
    return WantedOutput(output.name, region=allowed(regions).span(*place))


def _typed(contents: InferTensorContents, name: str, datatype: str, model: str) -> memoryview | None:
    """Return the bytes that raw_input_contents would have held; None for a datatype that cannot be sent typed."""
    expected = DATATYPES.get(datatype)
    if expected is None or not expected.contents:
        return None
    for field, _ in contents.ListFields():
        if field.name != expected.contents:
            raise InvalidRequestError(
                f"unexpected explicit tensor data for input tensor '{name}' for model '{model}' "
                f"of type '{DATATYPES_BY_CONTENTS[field.name].name}', expected datatype '{datatype}'"
            )
    values = getattr(contents, expected.contents)
    if expected.name == "BYTES":
        return _strings(values)
    if np.dtype(expected.numpy).kind in "iu":
        return _integers(values, expected, name)
    return _packed(contents, len(values) * expected.size_bytes)


def _packed(contents: InferTensorContents, size_bytes: int) -> memoryview:
    """Return booleans and floats bit for bit, NaNs included: protobuf's packed encoding holds the same bytes as raw contents.

    It is modified.

    Args:
        contents: a message with no other field set.
    """
    contents.DiscardUnknownFields()
    data = contents.SerializeToString()
    return memoryview(data)[len(data) - size_bytes :]


def _integers(values: Sequence[int], datatype: Datatype, name: str) -> memoryview:
    """Convert integers in pieces, since a Python integer takes four times the memory of the number.

    Raises InvalidRequestError for an integer out of range.
    """
    wide = np.uint64 if datatype.name == "UINT64" else np.int64
    packed = np.empty(len(values), datatype.numpy)
    for start in range(0, len(values), _PIECE_ELEMENTS):
        piece = np.array(values[start : start + _PIECE_ELEMENTS], wide)
        _check_range(piece, datatype, name)
        packed[start : start + len(piece)] = piece
    return packed.view(np.uint8).data


def _check_range(values: NDArray[Any], datatype: Datatype, name: str) -> None:
    low, high = int(np.iinfo(datatype.numpy).min), int(np.iinfo(datatype.numpy).max)
    outside = (values < low) | (values > high)
    if outside.any():
        worst = int(values[outside.argmax()])
        raise InvalidRequestError(f"input '{name}': {worst} does not fit {datatype.name}, which holds {low} to {high}")


def _strings(values: Iterable[bytes]) -> memoryview:
    """Append one element after another: a list of Python objects would take many times the memory of empty elements."""
    packed = bytearray()
    for value in values:
        packed += _LENGTH.pack(len(value))
        packed += value
    return memoryview(packed)
