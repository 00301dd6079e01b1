# SPDX-License-Identifier: Apache-2.0
"""Clients that no library would be: HTTP/2 frames by hand (RFC 9113), so that one can stop wherever one likes."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

import numpy as np
from tritonclient.grpc import service_pb2

SERVICE = "/inference.GRPCInferenceService/"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING = 0, 1, 3, 4, 6
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_MOST_FRAME_BYTES = 16_384


class RefusedError(Exception):
    """A call that ended without a message."""


def connect(address: tuple[str, int], source: str = "", timeout_s: float = 60) -> socket.socket:
    """Connect from a given local address; "" leaves the choice to the system."""
    return socket.create_connection(address, timeout=timeout_s, source_address=(source, 0) if source else None)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _headers(path: str) -> bytes:
    """HPACK, every field a literal without indexing and without Huffman."""
    fields = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "test", "te": "trailers",
        "content-type": "application/grpc",
    }  # fmt: skip
    parts = (b"\x00" + bytes((len(k),)) + k.encode() + bytes((len(v),)) + v.encode() for k, v in fields.items())
    return b"".join(parts)


class RawGrpc:
    """A connection whose windows are never opened again: after 64 KiB of answers the server has to wait."""

    def __init__(self, address: tuple[str, int], source: str = "", timeout_s: float = 60) -> None:
        """source: the address that the client comes from, "" = any. timeout_s: how long it waits for anything."""
        self._socket = connect(address, source, timeout_s)
        self._socket.sendall(_PREFACE + frame(_SETTINGS, 0, 0))
        self._next = 1

    def begin(self, method: str) -> int:
        """A call's headers; its stream."""
        stream, self._next = self._next, self._next + 2
        self._socket.sendall(frame(_HEADERS, _END_HEADERS, stream, _headers(SERVICE + method if method[0] != "/" else method)))
        return stream

    def half(self, method: str, size_bytes: int = 1000) -> None:
        """A call whose message says that it has so many bytes, of which ten come."""
        stream = self.begin(method)
        self._socket.sendall(frame(_DATA, 0, stream, struct.pack(">BI", 0, size_bytes) + bytes(10)))

    def call(self, method: str, message: bytes) -> int:
        """A call with its whole message."""
        stream = self.begin(method)
        self.finish(stream, message)
        return stream

    def finish(self, stream: int, message: bytes) -> None:
        """The whole message of a call that was begun, and no more after it."""
        self.message(stream, message)
        self._socket.sendall(frame(_DATA, _END_STREAM, stream))

    def message(self, stream: int, message: bytes) -> None:
        """A whole message of a call that was begun."""
        data = struct.pack(">BI", 0, len(message)) + message
        for at in range(0, len(data), _MOST_FRAME_BYTES):
            self._socket.sendall(frame(_DATA, 0, stream, data[at : at + _MOST_FRAME_BYTES]))

    def ask(self, method: str, message: bytes = b"") -> bytes:
        """A whole call on a connection that has no other; the answer's message. Raises RefusedError, OSError, TimeoutError."""
        stream, answer = self.call(method, message), b""
        while True:
            kind, flags, number, payload = self._frame()
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                self._socket.sendall(frame(kind, _ACK, 0, payload if kind == _PING else b""))
            elif kind == _DATA:
                answer += payload
            if number == stream and ((flags & _END_STREAM and kind in (_DATA, _HEADERS)) or kind == _RESET):
                if len(answer) < 5:
                    raise RefusedError(payload)
                return answer[5:]

    def _frame(self) -> tuple[int, int, int, bytes]:
        """(kind, flags, stream, payload) of the next one."""
        head = self._exactly(9)
        return head[3], head[4], int.from_bytes(head[5:9]), self._exactly(int.from_bytes(head[:3]))

    def _exactly(self, size_bytes: int) -> bytes:
        got = b""
        while len(got) < size_bytes:
            data = self._socket.recv(size_bytes - len(got))
            if not data:
                raise ConnectionError("the server closed the connection")
            got += data
        return got

    def read_all(self) -> bytes:
        """Everything until the server has nothing more to say for a second, or closes."""
        got = b""
        self._socket.settimeout(1)
        try:
            while data := self._socket.recv(1 << 16):
                got += data
        except TimeoutError:
            pass
        return got

    def __enter__(self) -> RawGrpc:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()


def request(model: str, x: np.ndarray, name: str = "x") -> bytes:
    """A serialized ModelInferRequest."""
    message = service_pb2.ModelInferRequest(model_name=model)
    message.inputs.add(name=name, datatype="FP32", shape=list(x.shape))
    message.raw_input_contents.append(x.astype(np.float32).tobytes())
    return message.SerializeToString()
