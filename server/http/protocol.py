# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as uvicorn and h11 speak it, with chunks counted and clients that stop cut off.

A chunk of one byte costs the event loop as much as one of 64 KiB, so a client that sends millions of them holds up everybody's
health checks. Headers are bounded by h11.

    connected ... a request begins ... headers here ... body here ... answer out ... idle ... the next begins
    |-- keep-alive --|-- headers' time ---|- read_body -|            |- any byte -|- keep-alive -|

It is built on parts of uvicorn's protocol that uvicorn does not document. Where one of them is missing, http_protocol() gives
uvicorn's own, which has none of this but the bound on headers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http import h11_impl

from hypersonic.server.limits.slow_clients import SLOWEST_READ_BYTES_PER_S, Fault, SlowClients

_LOG = logging.getLogger(__name__)
#: headers of which a request may have one
_LENGTHS = {b"content-length", b"transfer-encoding"}
#: a target that names the server, too, which every server has to take (RFC 9112, 3.2.2)
_ABSOLUTE = re.compile(rb"https?://[^/?#]+([/?].*)?", re.IGNORECASE | re.DOTALL)
#: all headers of a request together
HEADER_BYTES = 65_536
#: Triton's cap
MOST_CHUNKS = 65_536
#: so many may be of any size; of more, the mean is bounded
FREE_CHUNKS = 1024
LEAST_MEAN_BYTES = 64
_NEEDED = {
    "H11Protocol": (
        *("client", "conn", "flow", "loop", "timeout_keep_alive", "timeout_keep_alive_task", "transport"),
        *("connection_lost", "connection_made", "data_received", "pause_writing", "resume_writing", "send_400_response"),
        *("_unset_keepalive_if_required", "timeout_keep_alive_handler"),
    ),
    "FlowControl": ("write_paused",),
}


class BoundedConnection(h11.Connection):
    """Raises RemoteProtocolError for a body in too many chunks, and for one whose end can be read in two ways."""

    _chunks = 0
    _body_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if type(event) is h11.Data:
            self._chunks += event.chunk_start
            self._body_bytes += len(event.data)
            if self._chunks > FREE_CHUNKS:
                self._check()
        elif type(event) is h11.Request:
            self._chunks = self._body_bytes = 0
            if {name for name, _ in event.headers} >= _LENGTHS:  # a proxy may have believed the other one (RFC 9112, 6.1)
                raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding", error_status_hint=400)
            if match := _ABSOLUTE.fullmatch(event.target):
                return _with_target(event, match[1] or b"/")
        return event

    def _check(self) -> None:
        if self._chunks > MOST_CHUNKS or self._body_bytes < LEAST_MEAN_BYTES * (self._chunks - FREE_CHUNKS):
            raise h11.RemoteProtocolError(f"{self._chunks} chunks of {self._body_bytes} bytes in all", error_status_hint=400)


def _with_target(request: h11.Request, target: bytes) -> h11.Request:
    """The same request for a path and query of this server."""
    target = target if target.startswith(b"/") else b"/" + target
    return h11.Request(method=request.method, headers=request.headers, target=target, http_version=request.http_version)


def http_protocol(clients: SlowClients) -> Callable[..., asyncio.Protocol]:
    """uvicorn's `http`: a BoundedProtocol, whose slow clients `clients` looks after.

    Where uvicorn lacks a part of what that is built on: uvicorn's own protocol, with a warning.
    """
    missing = [f"{kind}.{name}" for kind, names in _NEEDED.items() for name in _lacking(kind, names)]
    if not missing:
        return partial(BoundedProtocol, clients=clients)
    _LOG.warning(
        "uvicorn %s has no %s: HTTP clients that stop are not cut off, and the chunks of a request's body are not bounded; "
        "install the uvicorn that requirements.lock names",
        *(uvicorn.__version__, ", ".join(missing)),
    )
    return h11_impl.H11Protocol


def _lacking(kind: str, names: tuple[str, ...]) -> list[str]:
    """Which of these neither the class of uvicorn has nor its constructor sets."""
    uvicorn_class = getattr(h11_impl, kind, None)
    constructor = getattr(getattr(uvicorn_class, "__init__", None), "__code__", None)
    there = {*dir(uvicorn_class), *(constructor.co_names if constructor else ())}
    return [name for name in names if name not in there]


class BoundedProtocol(h11_impl.H11Protocol):
    """uvicorn's protocol on a BoundedConnection."""

    def __init__(self, *args: Any, clients: SlowClients, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.conn = BoundedConnection(h11.SERVER, HEADER_BYTES)
        self._clients = clients
        #: while the client owes us bytes that nobody waits for, and while it has not taken enough of ours
        self._sending: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        #: by when, at shutdown, it has to have taken all of it
        self._last_s: float | None = None

    def connection_made(self, transport: Any) -> None:
        """Nothing may come for as long as between two requests; uvicorn would wait for ever."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._sending, self._reading = _stopped(self._sending), _stopped(self._reading)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._owes():
            self._sending = _stopped(self._sending)
        elif self._sending is None and not self.transport.is_closing():
            self._sending = self._after(self._cut_off, Fault.SENDS_NOTHING, "its request's headers did not come in time")

    def _owes(self) -> bool:
        """Whether it is in the middle of headers, or of a body that is answered already: nothing reads those with a timeout."""
        headers = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        return headers or (self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading = _stopped(self._reading)

    def _watch(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        if self._clients.grace_s is None:
            self._reading = self._after(self._look, unread_bytes)
        else:
            self._reading = self.loop.call_later(self._clients.grace_s, self._look_last, unread_bytes)

    def _look_last(self, unread_bytes: int) -> None:
        """The same at shutdown: it also has to be done in time."""
        now = self.loop.time()
        if self._last_s is None:
            self._last_s = now + min(unread_bytes / SLOWEST_READ_BYTES_PER_S, self._clients.most_s)
        if self.transport.get_write_buffer_size() < unread_bytes and now < self._last_s:
            self._watch()
        else:
            self._cut_off(Fault.SHUTDOWN, "the server is shutting down, and the answer was not read")

    def begin_shutdown(self) -> None:
        """The server shuts down: an answer that waits for its client has to be read soon."""
        if self.flow.write_paused:
            self._reading = _stopped(self._reading)
            self._watch()

    def end_half(self) -> None:
        """The server shuts down: a request that has not come as a whole is answered so, and the connection ends."""
        if self.conn.their_state is not h11.SEND_BODY or self.conn.our_state is not h11.SEND_RESPONSE:
            return
        text = "the server is shutting down, and the rest of the request's body did not come"
        self._note(Fault.SHUTDOWN, text)
        body = json.dumps({"error": text}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        answer = (h11.Response(status_code=503, headers=headers, reason=b"Service Unavailable"), h11.Data(data=body))
        for event in (*answer, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()  # connection_lost() tells whoever waits for the body

    def _look(self, unread_bytes: int) -> None:
        """Whether it has taken anything since the last look."""
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._watch()
        else:
            self._cut_off(Fault.READS_NOTHING, f"it read nothing of its answer for {self._clients.timeout_s:g} s")

    def _after(self, call: Any, *args: Any) -> asyncio.TimerHandle | None:
        timeout_s = self._clients.timeout_s
        return None if math.isinf(timeout_s) else self.loop.call_later(timeout_s, call, *args)

    def _cut_off(self, fault: Fault, text: str) -> None:
        self._note(fault, text)
        self.transport.abort()

    def _note(self, fault: Fault, text: str) -> None:
        self._clients.note(fault, "{}:{}".format(*(self.client or ("", 0))), text)

    def timeout_keep_alive_handler(self) -> None:
        """An idle connection is closed; one whose client has left a small answer unread has to be cut."""
        super().timeout_keep_alive_handler()
        self._reading = _stopped(self._reading)
        if self.transport.get_write_buffer_size():
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Say so where nothing has been said yet, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer any more."""
    if timer is not None:
        timer.cancel()
    return None
