# SPDX-License-Identifier: Apache-2.0
"""Messages over a Unix socket between the server and a model's process; both sides use this file.

::

    <u32 length of text> <u32 length of payload> <text: JSON, a list> <payload: raw bytes of tensors>

Integers are little endian. The receiver checks lengths before it allocates memory.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

_PREFIX = struct.Struct("<II")
_CHUNK_BYTES = 1 << 16
#: the longest wait for a socket at one time, in seconds; a later deadline is waited for in parts
_LONGEST_S = 86_400.0
#: the limit of a message's text, which grows with the number and rank of tensors, not with their bytes
_TEXT_LIMIT_BYTES = 64 << 20
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_DECODE = json.JSONDecoder().decode

Message = list[Any]


class ChannelClosedError(Exception):
    """The other side is gone."""


class MessageError(Exception):
    """The other side sent a malformed message."""


class Channel:
    """One end of a socket pair. Any thread may send; one thread at a time receives."""

    def __init__(self, sock: socket.socket, limit_bytes: int) -> None:
        """Use a connected socket.

        Args:
            limit_bytes: the largest payload that is received.
        """
        self._socket = sock
        self._limit_bytes = limit_bytes
        self._rest = b""
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor, for poll()."""
        return self._socket.fileno()

    def send(self, message: Message, payload: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message and its payload. Raises ChannelClosedError."""
        text = _ENCODE(message).encode()
        head = _PREFIX.pack(len(text), sum(len(chunk) for chunk in payload)) + text
        try:
            with self._sending:
                self._socket.sendall(head)
                for chunk in payload:
                    self._socket.sendall(chunk)
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self, deadline_ns: int = 0) -> tuple[Message, memoryview]:
        """Return the next message and its payload.

        Raises ChannelClosedError, MessageError, TimeoutError.

        Args:
            deadline_ns: monotonic, 0 = none.
        """
        while True:
            complete = self._take()
            if complete is not None:
                return complete
            self._rest += self._read(deadline_ns)

    def received(self) -> tuple[Message, memoryview] | None:
        """Return a message that has been read already, None if there is none; does not wait. Raises MessageError."""
        return self._take()

    def pull(self) -> None:
        """Read the available bytes, after poll() has reported some. Raises ChannelClosedError."""
        self._rest += self._read(0)

    def shutdown(self) -> None:
        """Close the channel for both sides, so that waiting threads notice."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # already closed

    def close(self) -> None:
        """Close the descriptor. No thread may be using the channel."""
        self._socket.close()

    def _take(self) -> tuple[Message, memoryview] | None:
        rest = self._rest
        if len(rest) < _PREFIX.size:
            return None
        text_bytes, payload_bytes = _PREFIX.unpack_from(rest)
        if text_bytes > _TEXT_LIMIT_BYTES or payload_bytes > self._limit_bytes:
            raise MessageError(f"a message of {text_bytes} + {payload_bytes} bytes exceeds {self._limit_bytes}")
        start = _PREFIX.size + text_bytes
        end = start + payload_bytes
        if len(rest) < end:
            if end - len(rest) <= _CHUNK_BYTES:
                return None
            rest = self._fill(end)
        self._rest = rest[end:] if len(rest) > end else b""
        return _decode(rest[_PREFIX.size : start]), memoryview(rest)[start:end]

    def _fill(self, end: int) -> bytes:
        """Read the rest of a large message into memory allocated once."""
        buffer = bytearray(end)
        view = memoryview(buffer)
        at = len(self._rest)
        view[:at] = self._rest
        while at < end:
            try:
                count = self._socket.recv_into(view[at:])
            except OSError as error:
                raise ChannelClosedError from error
            if not count:
                raise ChannelClosedError
            at += count
        return bytes(buffer)

    def _read(self, deadline_ns: int) -> bytes:
        try:
            if deadline_ns:
                self._socket.settimeout(min(max(1e-3, (deadline_ns - time.monotonic_ns()) / 1e9), _LONGEST_S))
            data = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            if time.monotonic_ns() < deadline_ns:
                return b""
            raise
        except OSError as error:
            raise ChannelClosedError from error
        if not data:
            raise ChannelClosedError
        return data


def _decode(text: bytes) -> Message:
    try:
        message = _DECODE(text.decode())
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message that is not JSON: {error}") from error
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        raise MessageError("a message that does not begin with its kind")
    return message
