# SPDX-License-Identifier: Apache-2.0
"""The host's end of XRT's emulation socket."""

from __future__ import annotations

import socket
import struct

from hypersonic.sim.xrt_bridge.wire import Fields, decode, encode


def ask(host: socket.socket, number: int, fields: Fields) -> Fields:
    """A call as XRT frames it, and its answer's fields."""
    body = encode(fields)
    host.sendall(struct.pack("<BQBI", 0x09, len(body), 0x15, number) + body)
    tag, size_bytes = struct.unpack("<BQ", host.recv(9, socket.MSG_WAITALL))
    assert tag == 0x09
    return decode(host.recv(size_bytes, socket.MSG_WAITALL) if size_bytes else b"")


def bytes_of(answer: Fields, field: int = 2) -> bytes:
    value = answer[field]
    assert isinstance(value, bytes)
    return value


def number_of(answer: Fields, field: int = 1) -> int:
    value = answer[field]
    assert isinstance(value, int)
    return value
