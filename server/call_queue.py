# SPDX-License-Identifier: Apache-2.0
"""CallQueue: one unary method of a grpc.Server, served by threads that wait on gRPC core's completion queue themselves.

    grpc.Server:  poller --call--> pool thread --read--> poller --message--> pool thread: handler --send--> poller
    CallQueue:    a thread: call, read | the same or another one: message, handler, send | ...

grpcio's server wakes a thread of its pool twice per call, each time through a futex and the interpreter's lock: half of what a
small request costs it. Here whoever gets the message runs the handler, having made sure that somebody waits for the next event
(leader and followers: Schmidt et al., Pattern-Oriented Software Architecture 2). Ports, TLS, all other methods and shutdown
stay the server's.

It is built on what grpcio's own _server.py is built on and does not document, grpc._cython.cygrpc. Where a part of that is
missing take_calls() gives None, and the server's own threads serve the method, only slower.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

import grpc

from hypersonic.server.direct_call import Call, cygrpc

_LOG = logging.getLogger(__name__)
#: threads that wait for events though no handler runs; more would only get in each other's way
_MOST_WAITING = 2
_NEEDED = {
    "Server": ("register_completion_queue", "register_method", "request_registered_call"),
    "CompletionQueue": ("poll", "shutdown"),
    "CompletionType": ("queue_shutdown",),
    "Call": ("start_server_batch", "peer"),
    "ReceiveCloseOnServerOperation": ("cancelled",),
    "ReceiveMessageOperation": ("message",),
    "SendInitialMetadataOperation": (),
    "SendMessageOperation": (),
    "SendStatusFromServerOperation": (),
}


def take_calls(server: grpc.Server, method: str, handler: grpc.GenericRpcHandler, threads: int) -> CallQueue | None:
    """Take `method` (/package.Service/Method) over from a server that is not started; None where grpcio does not let us.

    handler: asked for each call before its message is read. It gives a unary-unary handler, whose serializers are not used, or
    one whose request is a stream: a refusal, which is run at once and reads nothing. threads: calls read or run at a time.
    """
    core = getattr(server, "_cy_server", None)
    missing = [kind for kind, names in _NEEDED.items() if not _has(getattr(cygrpc, kind, None), names)]
    if core is None or missing:
        _LOG.warning("grpcio %s has no %s: %s is slower", grpc.__version__, ", ".join(missing) or "_cy_server", method)
        return None
    return CallQueue(core, method, handler, threads)


def _has(kind: object, names: tuple[str, ...]) -> bool:
    return kind is not None and all(hasattr(kind, name) for name in names)


class CallQueue:
    """Order of calls: take_calls, the server's start, start, the server's stop, close."""

    def __init__(self, core: Any, method: str, handler: grpc.GenericRpcHandler, threads: int) -> None:
        self._core = core
        self._method = method
        self._handler = handler
        self._queue = cygrpc.CompletionQueue()
        self._shut_down = cygrpc.CompletionType.queue_shutdown
        core.register_completion_queue(self._queue)
        core.register_method(method)
        self._lock = threading.Lock()
        self._most = threads
        #: calls whose message is being read or whose handler runs
        self._under_way = 0
        #: calls that have to wait until one of those is over
        self._unread: deque[Call] = deque()
        #: threads that wait for an event, or are about to
        self._waiting = 0
        #: threads without work, each waiting for its lock; the one used last is called first
        self._parked: list[threading.Lock] = []
        self._closed = False

    def start(self) -> None:
        """The server has been started."""
        self._request()
        self._waiting = 1
        self._add_thread()

    def close(self) -> None:
        """The server has stopped. Threads end at once, or when the handlers they are in come back."""
        with self._lock:
            self._closed = True
            parked, self._parked = self._parked, []
            self._waiting += len(parked)
        for thread in parked:
            thread.release()
        self._end()

    def _end(self) -> None:
        """No call is under way any more: none can start an operation on a queue that is shut down, which gRPC core forbids."""
        if self._closed and not self._under_way:
            self._queue.shutdown()

    def _request(self) -> None:
        """Ask for the next call."""
        self._core.request_registered_call(self._queue, self._queue, self._method, self._method)

    def _add_thread(self) -> None:
        threading.Thread(target=self._serve, name="grpc-infer", daemon=True).start()

    def _serve(self) -> None:
        while True:
            event = self._queue.poll(None)
            if event.completion_type == self._shut_down:
                return
            if event.tag is self._method:
                self._arrive(event)
            elif (call := event.tag(event)) is not None:
                self._run(call)
                del call
            del event  # what it refers to, a message perhaps, must not live until the next one

    def _arrive(self, event: Any) -> None:
        """A call has come, or the server shuts down."""
        if not event.success:
            return
        try:
            self._request()
        except ValueError:  # the server shuts down
            _LOG.debug("no more calls of %s", self._method)
        call = Call(event, self._method, self._handler)
        with self._lock:
            may_read = self._under_way < self._most
            if may_read:
                self._under_way += 1
            else:
                self._unread.append(call)
        if may_read:
            call.read()

    def _run(self, call: Call) -> None:
        """Run a call's handler while another thread waits for events; then be one of those that do, or without work."""
        self._let_follow()
        try:
            call.run()
        except Exception:  # noqa: BLE001 - no memory, say: this call is lost, not the thread that serves all
            _LOG.exception("an answer of %s could not be sent", self._method)
        following, parking = self._hand_over()
        if following is not None:
            following.read()
        self._end()
        if parking is not None:
            parking.acquire()

    def _let_follow(self) -> None:
        """This thread does not wait for events now; another one has to."""
        with self._lock:
            alone = self._waiting == 1
            if not alone:
                self._waiting -= 1
                return
            follower = self._parked.pop() if self._parked else None
        if follower is not None:
            follower.release()
            return
        try:
            self._add_thread()
        except RuntimeError:  # no memory for a stack: events wait until this thread is back
            _LOG.exception("no thread to wait for calls")
            with self._lock:
                self._waiting -= 1

    def _hand_over(self) -> tuple[Call | None, threading.Lock | None]:
        """(the call that may be read now, the lock to wait for because enough threads wait for events)."""
        with self._lock:
            following = self._unread.popleft() if self._unread else None
            if following is None:
                self._under_way -= 1
            if self._waiting < _MOST_WAITING or self._closed:
                self._waiting += 1
                return following, None
            parking = threading.Lock()
            parking.acquire()
            self._parked.append(parking)
            return following, parking
