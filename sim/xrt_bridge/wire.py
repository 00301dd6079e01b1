# SPDX-License-Identifier: Apache-2.0
"""Messages of XRT's emulation socket: a header with the size in bytes, then a protobuf message of that size.

::

    host -> device   0x09 u64 size, 0x15 u32 call number
    device -> host   0x09 u64 size

Only the parts of protobuf that the calls need are decoded: integers and byte strings, and the last value of each field.
Everything received is checked, and sizes before memory is allocated.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import NamedTuple

#: the largest message; XRT sends buffers in pieces of 8 MiB, and its [Emulation] settings in one message
MAX_MESSAGE_BYTES = 16 << 20

_CALL = struct.Struct("<BQBI")
_ANSWER = struct.Struct("<BQ")
_SIZE_TAG, _NUMBER_TAG = 0x09, 0x15
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_VARINT_MAX_BYTES = 10

#: a message's fields by number; if a number occurs twice, the last field counts
Fields = Mapping[int, int | bytes]


class WireError(ValueError):
    """The bytes are not a message of XRT's emulation socket."""


class Call(NamedTuple):
    """A call from the host: its number in XRT's protocol, and its fields."""

    number: int
    fields: Fields


def read_call(connection: socket.socket) -> Call | None:
    """Read the next call. Returns None if the host has closed the socket between two calls.

    Raises WireError for bytes that are not a whole call of at most MAX_MESSAGE_BYTES, and OSError.
    """
    head = _receive(connection, _CALL.size)
    if not head:
        return None
    size_tag, size_bytes, number_tag, number = _CALL.unpack(head)
    if (size_tag, number_tag) != (_SIZE_TAG, _NUMBER_TAG):
        raise WireError(f"a call's header is {head.hex()}, expected the tags 09 and 15 before its size and number")
    if size_bytes > MAX_MESSAGE_BYTES:
        raise WireError(f"call {number} has {size_bytes} bytes, expected at most {MAX_MESSAGE_BYTES}")
    body = _receive(connection, size_bytes)
    if len(body) < size_bytes:
        raise WireError(f"the socket was closed within call {number}")
    return Call(number, decode(body))


def send_answer(connection: socket.socket, fields: Fields) -> None:
    """Send an answer with these fields. Raises OSError if the host has closed the socket."""
    body = encode(fields)
    connection.sendall(_ANSWER.pack(_SIZE_TAG, len(body)) + body)


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    """Receive size_bytes bytes, or none if the socket is closed before the first. Raises WireError if it is closed later."""
    data = bytearray(size_bytes)
    view, done = memoryview(data), 0
    while done < size_bytes:
        count = connection.recv_into(view[done:])
        if count == 0 and done:
            raise WireError(f"the socket was closed after {done} of {size_bytes} bytes")
        if count == 0:
            return b""
        done += count
    return bytes(data)


def decode(message: bytes) -> Fields:
    """Decode a protobuf message into its fields; nested messages stay bytes. Raises WireError for a malformed message."""
    fields: dict[int, int | bytes] = {}
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            fields[number], position = _varint(message, position)
            continue
        if kind == _BYTES:
            size_bytes, position = _varint(message, position)
        elif (size_bytes := _FIXED_BYTES.get(kind, 0)) == 0:
            raise WireError(f"field {number} is of wire type {kind}, expected 0, 1, 2 or 5")
        value = message[position : position + size_bytes]
        if len(value) < size_bytes:
            raise WireError(f"field {number} has {size_bytes} bytes, {len(value)} are left")
        fields[number] = value if kind == _BYTES else int.from_bytes(value, "little")
        position += size_bytes
    return fields


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Decode the varint at a position. Returns the number and the position after it.

    Raises WireError if it is cut off or has more than 64 bits.
    """
    value = 0
    for index, byte in enumerate(message[position : position + _VARINT_MAX_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80 and value < 1 << 64:
            return value, position + index + 1
    raise WireError(f"the number at byte {position} of {len(message)} does not end, or has more than 64 bits")


def encode(fields: Fields) -> bytes:
    """Encode fields as a protobuf message: integers as varints, and bytes with their length."""
    return b"".join(
        _encode_varint(number << 3 | _BYTES) + _encode_varint(len(value)) + value
        if isinstance(value, bytes)
        else _encode_varint(number << 3 | _VARINT) + _encode_varint(value)
        for number, value in fields.items()
    )


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
