# SPDX-License-Identifier: Apache-2.0
"""ModelInfer's two messages as bytes: requests are read without copying their tensors, answers are written without protobuf.

::

    ModelInferRequest:   model_name .. outputs | raw_input_contents raw_input_contents ...
                         '--- protobuf ------'   '--- memoryviews, never copied -------'

This module parses only the top level of the protobuf encoding. If it finds anything except the message's seven length-delimited
fields (groups, long tags, unknown fields, truncation), the protobuf library parses the whole message, and accepts or refuses
it. The parser here is faster than the library and never decides differently. The library also parses a message whose header is
so long that its fields have to be counted first (limits/message.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from hypersonic.server.core.inference.answer import NO_PARAMETERS, Output
from hypersonic.server.core.inference.parameters import ParameterValue
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.limits.message import LIMITS, Limits, check_wire

#: the largest message that protobuf and gRPC allow
MAX_MESSAGE_BYTES = 2**31 - 1
_RAW_INPUT_CONTENTS = 0x3A  # field 7, length-delimited
_NOWHERE: Mapping[int, Mapping[str, ParameterValue]] = {}
_HEADER_TAGS = frozenset((0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x32))  # fields 1 to 6, length-delimited


def split(
    data: bytes, take: Callable[[int], object] = int, limits: Limits = LIMITS
) -> tuple[ModelInferRequest, list[memoryview]]:
    """Parse a serialized ModelInferRequest. Returns the message without raw_input_contents, and those as views into `data`.

    Args:
        take: called with the number of bytes that parsing will need in addition to `data`, if that is not negligible; may
            raise.

    Raises:
        InvalidRequestError: For bytes that the protobuf library refuses, and for a message that exceeds `limits`.
    """
    try:
        walked = _walk(data)
        if walked is not None:
            header, raw = walked
            if more := check_wire(header, limits):
                take(more)
            return ModelInferRequest.FromString(header), raw
        if more := check_wire(data, limits):
            take(more)
        message = ModelInferRequest.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"Unable to parse request: {len(data)} bytes are not a ModelInferRequest") from error
    raw = [memoryview(content) for content in message.raw_input_contents]
    message.ClearField("raw_input_contents")
    return message, raw


def _walk(data: bytes) -> tuple[bytes, list[memoryview]] | None:
    """Return (everything except raw_input_contents, views of those), or None for a message that the library has to parse."""
    view = memoryview(data)
    end = len(data)
    raw: list[memoryview] = []
    header: list[bytes] = []
    kept = at = 0  # data[kept:at] is the part of the header that has not been copied yet
    while at < end:
        tag = data[at]
        body = _length(data, at + 1, end)
        if body is None:
            return None
        start, stop = body
        if tag == _RAW_INPUT_CONTENTS:
            header.append(data[kept:at])
            raw.append(view[start:stop])
            kept = stop
            if len(raw) > LIMITS.inputs:
                return None
        elif tag not in _HEADER_TAGS or stop - kept > LIMITS.uncounted_bytes:
            return None
        at = stop
    return (b"".join((*header, data[kept:])) if raw else data), raw


def _length(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """Decode the length varint at `at`. Returns (first byte of the body, byte after it), None if that is not inside `data`."""
    size = shift = 0
    while at < end and shift < 35:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (at, at + size) if at + size <= end else None
        shift += 7
    return None


def varint(value: int) -> bytes:
    """Encode a non-negative integer as protobuf's base-128 varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = tuple(bytes((n,)) for n in range(0x80))


def _field(number: int, body: bytes) -> bytes:
    """Encode a length-delimited field. An empty body gives nothing, because proto3 leaves out default values."""
    return varint(number << 3 | 2) + varint(len(body)) + body if body else b""


@dataclass(frozen=True)
class ResponseFrame:
    """The parts that all ModelInferResponses of one model version have in common, encoded once.

    Attributes:
        head: model_name and model_version, encoded.
        names, datatypes: of the outputs, as configured.
        tensors: name and datatype of each output, encoded.
    """

    head: bytes
    names: tuple[str, ...]
    datatypes: tuple[str, ...]
    tensors: tuple[bytes, ...]

    @classmethod
    def of(cls, model_name: str, model_version: str, outputs: Sequence[tuple[str, str]]) -> ResponseFrame:
        """Encode the common parts.

        Args:
            outputs: (name, datatype) of each output, in the order of the configuration.
        """
        return cls(
            head=_field(1, model_name.encode()) + _field(2, model_version.encode()),
            names=tuple(name for name, _ in outputs),
            datatypes=tuple(datatype for _, datatype in outputs),
            tensors=tuple(_field(1, name.encode()) + _field(2, datatype.encode()) for name, datatype in outputs),
        )

    def fill(
        self,
        request_id: str,
        outputs: Sequence[Output],
        parameters: Mapping[str, ParameterValue] = NO_PARAMETERS,
        placed: Mapping[int, Mapping[str, ParameterValue]] = _NOWHERE,
        *,
        streamed: bool = False,
    ) -> bytes:
        """Return a serialized ModelInferResponse. The outputs' bytes are copied once.

        Args:
            placed: parameters of outputs, by position.
            streamed: put it inside a ModelStreamInferResponse.

        Raises:
            InvalidRequestError: For a response that would exceed 2 GiB.
        """
        parts: list[bytes | memoryview] = [self.head]
        if request_id:
            parts.append(_field(3, request_id.encode()))
        if parameters:
            parts.append(_parameters(ModelInferResponse(), parameters))
        contents: list[bytes | memoryview] = []
        total = 0
        for output in outputs:
            parts.append(_field(5, self._tensor(output, placed.get(output.position, NO_PARAMETERS))))
            contents += (b"\x32" + varint(output.size_bytes), *output.chunks)
            total += output.size_bytes
        if total > MAX_MESSAGE_BYTES - 2**16:
            raise InvalidRequestError(
                f"Response has byte size {total} which exceeds gRPC's byte size limit {MAX_MESSAGE_BYTES}."
            )
        parts += contents
        if streamed:
            size = sum([len(part) for part in parts])
            parts.insert(0, b"\x12" + varint(size))
        return b"".join(parts)

    def _tensor(self, output: Output, parameters: Mapping[str, ParameterValue]) -> bytes:
        head = self.tensors[output.position]
        if output.datatype != self.datatypes[output.position]:
            head = _field(1, self.names[output.position].encode()) + _field(2, output.datatype.encode())
        head += _field(3, b"".join([varint(n) for n in output.shape]))
        return head + _parameters(ModelInferResponse.InferOutputTensor(), parameters) if parameters else head


def _parameters(message: Any, parameters: Mapping[str, ParameterValue]) -> bytes:
    """Encode the field `parameters` of a message that has no other field. The library does it, because it is rarely needed."""
    for key, value in parameters.items():
        set_parameter(message.parameters[key], value)
    return bytes(message.SerializeToString(deterministic=True))


def set_parameter(parameter: Any, value: ParameterValue) -> None:
    """Set the field of an inference.InferParameter that fits the value's type."""
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        if value < 1 << 63:
            parameter.int64_param = value
        else:
            parameter.uint64_param = value
    elif isinstance(value, str):
        parameter.string_param = value
    else:
        parameter.double_param = value


def stream_error(text: str, head: bytes = b"") -> bytes:
    """Encode a ModelStreamInferResponse with an error.

    Args:
        head: the serialized ModelInferResponse to send with it.
    """
    return _field(1, text.encode()) + (_field(2, head) if head else b"")
