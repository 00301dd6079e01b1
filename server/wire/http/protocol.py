# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 of uvicorn and h11, with a limit on the number of chunks and time limits for clients that stop.

A chunk of one byte costs the event loop as much as one of 64 KiB, so a client that sends millions of chunks would delay the
health checks of all others. h11 limits the size of the headers.

::

    connected ... a request begins ... headers read ... body read ... answer sent ... idle ... next request
    |-- keep-alive --|-- headers' time ---|- read_body -|            |- any byte -|- keep-alive -|

It is built on undocumented parts of uvicorn's protocol, so the dependencies of the server allow only the release that has them.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any

import h11
from uvicorn.protocols.http import h11_impl

from hypersonic.server.limits.slow_clients import SLOWEST_READ_BYTES_PER_S, Fault, SlowClients

#: headers of which a request may have only one
_LENGTHS = {b"content-length", b"transfer-encoding"}
#: a request target in absolute form, which every server has to accept (RFC 9112, 3.2.2)
_ABSOLUTE = re.compile(rb"https?://[^/?#]+([/?].*)?", re.IGNORECASE | re.DOTALL)
#: the most bytes of a request's headers together
HEADER_BYTES = 65_536
#: the most chunks of a body, as in Triton
MOST_CHUNKS = 65_536
#: this many chunks of a body may have any size; further chunks need LEAST_MEAN_BYTES each on average
FREE_CHUNKS = 1024
LEAST_MEAN_BYTES = 64


class BoundedConnection(h11.Connection):
    """An h11 connection that refuses a body of too many chunks, and a body whose length can be read in two ways."""

    _chunks = 0
    _body_bytes = 0

    def next_event(self) -> Any:
        """Return the next event. Raises RemoteProtocolError (400) for a body that is refused."""
        event = super().next_event()
        if type(event) is h11.Data:
            self._chunks += event.chunk_start
            self._body_bytes += len(event.data)
            if self._chunks > FREE_CHUNKS:
                self._check()
        elif type(event) is h11.Request:
            self._chunks = self._body_bytes = 0
            if {name for name, _ in event.headers} >= _LENGTHS:  # a proxy may have used the other one (RFC 9112, 6.1)
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding", error_status_hint=400)
            if match := _ABSOLUTE.fullmatch(event.target):
                return _with_target(event, match[1] or b"/")
        return event

    def _check(self) -> None:
        if self._chunks > MOST_CHUNKS or self._body_bytes < LEAST_MEAN_BYTES * (self._chunks - FREE_CHUNKS):
            raise h11.RemoteProtocolError(f"{self._chunks} chunks of {self._body_bytes} bytes in all", error_status_hint=400)


def _with_target(request: h11.Request, target: bytes) -> h11.Request:
    """Return the same request with a target in origin form: path and query only."""
    target = target if target.startswith(b"/") else b"/" + target
    return h11.Request(method=request.method, headers=request.headers, target=target, http_version=request.http_version)


class BoundedProtocol(h11_impl.H11Protocol):
    """uvicorn's protocol on a BoundedConnection, which cuts off clients that stop sending or reading."""

    def __init__(self, *args: Any, clients: SlowClients, **keywords: Any) -> None:
        """The rest: as for H11Protocol.

        Args:
            clients: has the time limits and counts the clients that are cut off.
        """
        super().__init__(*args, **keywords)
        self.conn = BoundedConnection(h11.SERVER, HEADER_BYTES)
        self._clients = clients
        #: set while the client has to send bytes that no coroutine waits for
        self._sending: asyncio.TimerHandle | None = None
        #: set while the client has to read more of an answer
        self._reading: asyncio.TimerHandle | None = None
        #: the time (of the event loop) by which the client has to have read the answer, at shutdown
        self._last_s: float | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the keep-alive timer, so that a new connection may not be idle for longer than one between two requests.

        uvicorn alone would wait forever for the first request.
        """
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._sending, self._reading = _stopped(self._sending), _stopped(self._reading)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle the data, and start or stop the timer for the rest of the headers."""
        super().data_received(data)
        if not self._owes():
            self._sending = _stopped(self._sending)
        elif self._sending is None and not self.transport.is_closing():
            self._sending = self._after(self._cut_off, Fault.SENDS_NOTHING, "its request's headers did not arrive in time")

    def _owes(self) -> bool:
        """Return whether the client is in the middle of its headers, or of a body that has already been answered.

        No coroutine reads these with a timeout.
        """
        headers = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        return headers or (self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE)

    def pause_writing(self) -> None:
        """Begin checking that the client reads its answer."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop checking that the client reads its answer."""
        super().resume_writing()
        self._reading = _stopped(self._reading)

    def _watch(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        if self._clients.grace_s is None:
            self._reading = self._after(self._look, unread_bytes)
        else:
            self._reading = self.loop.call_later(self._clients.grace_s, self._look_last, unread_bytes)

    def _look_last(self, unread_bytes: int) -> None:
        """Check at shutdown that the client has read something since the last check, and that its time is not over."""
        now = self.loop.time()
        if self._last_s is None:
            self._last_s = now + min(unread_bytes / SLOWEST_READ_BYTES_PER_S, self._clients.most_s)
        if self.transport.get_write_buffer_size() < unread_bytes and now < self._last_s:
            self._watch()
        else:
            self._cut_off(Fault.SHUTDOWN, "the server is shutting down, and the answer was not read")

    def begin_shutdown(self) -> None:
        """Apply the shutdown's time limits to the reading of an unread answer from now on."""
        if self.flow.write_paused:
            self._reading = _stopped(self._reading)
            self._watch()

    def end_half(self) -> None:
        """Answer a request that has not arrived completely with 503, and close the connection. Used at shutdown."""
        if self.conn.their_state is not h11.SEND_BODY or self.conn.our_state is not h11.SEND_RESPONSE:
            return
        text = "the server is shutting down, and the rest of the request's body did not arrive"
        self._note(Fault.SHUTDOWN, text)
        body = json.dumps({"error": text}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        answer = (h11.Response(status_code=503, headers=headers, reason=b"Service Unavailable"), h11.Data(data=body))
        for event in (*answer, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()  # connection_lost() then wakes the coroutine that waits for the body

    def _look(self, unread_bytes: int) -> None:
        """Cut the client off if it has read nothing since the last check."""
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
        """Close an idle connection. If the client has left a small answer unread, begin checking that it reads."""
        super().timeout_keep_alive_handler()
        self._reading = _stopped(self._reading)
        if self.transport.get_write_buffer_size():
            self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer 400 if no answer has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer. Returns None, to replace it."""
    if timer is not None:
        timer.cancel()
    return None
