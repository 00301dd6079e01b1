# SPDX-License-Identifier: Apache-2.0
"""ModelInfer's two messages as bytes: a request read without copying its tensors, an answer framed without protobuf.

    ModelInferRequest:   model_name .. outputs | raw_input_contents raw_input_contents ...
                         '--- protobuf ------'   '--- memoryviews, never copied -------'

Only the top level is walked here. Whatever is not plainly one of the message's seven length-delimited fields (groups, long
tags, unknown fields, truncation) sends the whole message through the protobuf library, which then accepts, refuses and
reads it: the walk can be faster than the library, never of another opinion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tritonclient.grpc.service_pb2 import ModelInferRequest

from hypersonic.server.errors import InvalidRequestError

#: protobuf's and gRPC's limit of one message
MAX_MESSAGE_BYTES = 2**31 - 1
_RAW_INPUT_CONTENTS = 0x3A  # field 7, length-delimited
_HEADER_TAGS = frozenset((0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x32))  # fields 1 to 6, length-delimited


def split(data: bytes) -> tuple[ModelInferRequest, list[memoryview]]:
    """A serialized ModelInferRequest -> the message without raw_input_contents, and those as views into `data`.

    Raises InvalidRequestError for bytes that the protobuf library refuses.
    """
    try:
        walked = _walk(data)
        if walked is not None:
            header, raw = walked
            return ModelInferRequest.FromString(header), raw
        message = ModelInferRequest.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"Unable to parse request: {len(data)} bytes are not a ModelInferRequest") from error
    raw = [memoryview(content) for content in message.raw_input_contents]
    message.ClearField("raw_input_contents")
    return message, raw


def _walk(data: bytes) -> tuple[bytes, list[memoryview]] | None:
    """(everything but raw_input_contents, views of those), or None for what this walk does not know."""
    view = memoryview(data)
    end = len(data)
    raw: list[memoryview] = []
    header: list[bytes] = []
    kept = at = 0  # data[kept:at] is header not yet taken over
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
        elif tag not in _HEADER_TAGS:
            return None
        at = stop
    return (b"".join((*header, data[kept:])) if raw else data), raw


def _length(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """The length varint at `at` -> (first byte of the body, byte after it), or None where that is not inside `data`."""
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
    """Protobuf's base-128 varint of a non-negative integer."""
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
    """A length-delimited field; empty when the body is, as proto3 leaves out defaults."""
    return varint(number << 3 | 2) + varint(len(body)) + body if body else b""


class OutputTensor(NamedTuple):
    """One output of an answer. position: among the model's outputs. chunks: its bytes, in order, in any number of pieces."""

    position: int
    shape: tuple[int, ...]
    chunks: Sequence[bytes | memoryview]
    size_bytes: int


@dataclass(frozen=True)
class ResponseFrame:
    """What every ModelInferResponse of one model version has in common, made once at load.

    head: model_name and model_version. tensors: name and datatype of each output.
    """

    head: bytes
    tensors: tuple[bytes, ...]

    @classmethod
    def of(cls, model_name: str, model_version: str, outputs: Sequence[tuple[str, str]]) -> ResponseFrame:
        """outputs: (name, datatype) of each."""
        return cls(
            head=_field(1, model_name.encode()) + _field(2, model_version.encode()),
            tensors=tuple(_field(1, name.encode()) + _field(2, datatype.encode()) for name, datatype in outputs),
        )

    def fill(self, request_id: str, outputs: Sequence[OutputTensor]) -> bytes:
        """A serialized ModelInferResponse; the outputs' bytes are copied once. Raises InvalidRequestError past 2 GiB."""
        total = sum(output.size_bytes for output in outputs)
        if total > MAX_MESSAGE_BYTES - 2**16:
            raise InvalidRequestError(
                f"Response has byte size {total} which exceeds gRPC's byte size limit {MAX_MESSAGE_BYTES}."
            )
        parts: list[bytes | memoryview] = [self.head, _field(3, request_id.encode())]
        for output in outputs:
            shape = b"".join([varint(n) for n in output.shape])
            parts.append(_field(5, self.tensors[output.position] + _field(3, shape)))
        for output in outputs:
            parts.append(b"\x32" + varint(output.size_bytes))
            parts.extend(output.chunks)
        return b"".join(parts)
