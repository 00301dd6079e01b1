# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 server that answers each call with the frames that a test gives, as proxies and broken servers do."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END, END_HEADERS, ACK = 1, 4, 1
_PREFACE_BYTES = 24

#: a stream's number -> the frames that answer the call; empty: the connection is closed
Reply = Callable[[int], bytes]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def headers(stream: int, *, end: bool = False, **fields: str) -> bytes:
    """A HEADERS frame. `status` is `:status`; an underscore in a name is a hyphen."""
    names = {name: ":status" if name == "status" else name.replace("_", "-") for name in fields}
    literals = [
        b"\0" + bytes([len(names[name])]) + names[name].encode() + bytes([len(value)]) + value.encode()  # RFC 7541, 6.2.2
        for name, value in fields.items()
    ]
    return frame(HEADERS, END_HEADERS | (END if end else 0), stream, b"".join(literals))


def reset(stream: int, error: int) -> bytes:
    """A RST_STREAM frame with an error code of RFC 9113, section 7."""
    return frame(RST_STREAM, 0, stream, struct.pack(">I", error))


def begun(stream: int) -> bytes:
    """The headers of an answer."""
    return headers(stream, status="200", content_type="application/grpc")


@contextmanager
def http2_peer(reply: Reply) -> Iterator[str]:
    """Run the server; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, reply), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _accept(listening: socket.socket, reply: Reply) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_talk, args=(connection, reply), daemon=True).start()


def _talk(connection: socket.socket, reply: Reply) -> None:
    with connection, connection.makefile("rb") as stream:
        try:
            stream.read(_PREFACE_BYTES)
            connection.sendall(frame(SETTINGS, 0, 0))
            while head := stream.read(9):
                size, kind, flags, number = int.from_bytes(head[:3]), head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF
                payload = stream.read(size)
                if kind in {SETTINGS, PING} and not flags & ACK:
                    connection.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
                elif kind in {DATA, HEADERS} and flags & END:
                    answer = reply(number)
                    if not answer:
                        return
                    connection.sendall(answer)
        except OSError:
            return
