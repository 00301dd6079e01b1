# SPDX-License-Identifier: Apache-2.0
"""CallQueue: unary methods of a grpc.Server, served by threads that wait on gRPC core's completion queue themselves.

    grpc.Server:  poller --call--> pool thread --read--> poller --message--> pool thread: handler --send--> poller
    CallQueue:    a thread: call, read | the same or another one: message, handler, send | ...

grpcio's server wakes a thread of its pool twice per call, each time through a futex and the interpreter's lock: half of what a
small request costs it. Here whoever gets the message runs the handler, having made sure that somebody waits for the next event
(leader and followers: Schmidt et al., Pattern-Oriented Software Architecture 2). Ports, TLS, all other methods and shutdown
stay the server's.

While a message is read no thread waits for it: grpcio's server has one do so, and as many clients as there are threads, each
with half a message, would hold up everybody. Messages that are being read take memory, so their number is bounded, and a
connection may have no more of them than are still free: one that sends many halves gets half of the places and never all.

It is built on what grpcio's own _server.py is built on and does not document, grpc._cython.cygrpc. Where a part of that is
missing take_calls() gives None, and the server's own threads serve the method, only slower.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import grpc

from hypersonic.server.direct_call import Call, cygrpc
from hypersonic.server.slow_clients import SlowClients

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


def take_calls(
    server: grpc.Server,
    methods: Sequence[str],
    handler: grpc.GenericRpcHandler,
    threads: int,
    clients: SlowClients | None = None,
) -> CallQueue | None:
    """Take `methods` (/package.Service/Method) over from a server that is not started; None where grpcio does not let us.

    handler: asked for each call before its message is read. It gives a unary-unary handler, whose serializers are not used, or
    one whose request is a stream: a refusal, which is run at once and reads nothing. threads: calls read or run at a time.
    clients: who looks after clients that stop, None = nobody.
    """
    core = getattr(server, "_cy_server", None)
    missing = [kind for kind, names in _NEEDED.items() if not _has(getattr(cygrpc, kind, None), names)]
    if core is None or missing:
        _LOG.warning("grpcio %s has no %s: %s is slower", grpc.__version__, ", ".join(missing) or "_cy_server", methods[0])
        return None
    return CallQueue(core, methods, handler, threads, clients or SlowClients())


def _has(kind: object, names: tuple[str, ...]) -> bool:
    return kind is not None and all(hasattr(kind, name) for name in names)


class CallQueue:
    """Order of calls: take_calls, the server's start, start, the server's stop, close."""

    def __init__(
        self, core: Any, methods: Sequence[str], handler: grpc.GenericRpcHandler, threads: int, clients: SlowClients
    ) -> None:
        self._core = core
        self._methods = tuple(methods)
        self._handler = handler
        self._clients = clients
        self._queue = cygrpc.CompletionQueue()
        self._shut_down = cygrpc.CompletionType.queue_shutdown
        core.register_completion_queue(self._queue)
        for method in self._methods:
            core.register_method(method)
        self._lock = threading.Lock()
        self._most = threads
        #: calls whose message is being read or whose handler runs
        self._under_way = 0
        #: connection -> its calls whose message is being read, and how many those are in all
        self._reading: dict[str, int] = {}
        self._being_read = 0
        #: connection -> its calls that have to wait; the connections take turns
        self._unread: dict[str, deque[Call]] = {}
        #: threads that wait for an event, or are about to
        self._waiting = 0
        #: threads without work, each waiting for its lock; the one used last is called first
        self._parked: list[threading.Lock] = []
        self._closed = False

    def start(self) -> None:
        """The server has been started."""
        for method in self._methods:
            self._request(method)
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

    def _request(self, method: str) -> None:
        """Ask for the next call: an event whose tag is the method."""
        self._core.request_registered_call(self._queue, self._queue, method, method)

    def _add_thread(self) -> None:
        threading.Thread(target=self._serve, name="grpc-infer", daemon=True).start()

    def _serve(self) -> None:
        while True:
            event = self._queue.poll(None)
            if event.completion_type == self._shut_down:
                return
            if type(event.tag) is str:
                self._arrive(event, event.tag)
            elif (call := event.tag(event)) is not None:
                self._has_read(call)
                self._run(call)
                del call
            del event  # what it refers to, a message perhaps, must not live until the next one

    def _arrive(self, event: Any, method: str) -> None:
        """A call has come, or the server shuts down."""
        if not event.success:
            return
        try:
            self._request(method)
        except ValueError:  # the server shuts down
            _LOG.debug("no more calls of %s", method)
        call = Call(event, method, self._handler, self._clients)
        with self._lock:
            may_read = self._may_read(call.client)
            if may_read:
                self._begin(call)
            else:
                self._unread.setdefault(call.client, deque()).append(call)
        if may_read:
            call.read()

    def _may_read(self, client: str) -> bool:
        return self._under_way < self._most and self._reading.get(client, 0) < self._most - self._being_read

    def _begin(self, call: Call) -> None:
        """Count it as being read; read() follows, without the lock."""
        self._under_way += 1
        self._being_read += 1
        self._reading[call.client] = self._reading.get(call.client, 0) + 1

    def _has_read(self, call: Call) -> None:
        """Its message is here, or never comes."""
        with self._lock:
            self._being_read -= 1
            count = self._reading.pop(call.client) - 1
            if count:
                self._reading[call.client] = count
            following = self._next() if self._unread else None
        if following is not None:
            following.read()

    def _next(self) -> Call | None:
        """A call that had to wait and may be read now."""
        client = next(filter(self._may_read, self._unread), None)
        if client is None:
            return None
        calls = self._unread.pop(client)
        call = calls.popleft()
        if calls:
            self._unread[client] = calls  # behind the others
        self._begin(call)
        return call

    def _run(self, call: Call) -> None:
        """Run a call's handler while another thread waits for events; then be one of those that do, or without work."""
        self._let_follow()
        try:
            call.run()
        except Exception:  # noqa: BLE001 - no memory, say: this call is lost, not the thread that serves all
            _LOG.exception("an answer of %s could not be sent", call.method)
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
            self._under_way -= 1
            following = self._next() if self._unread else None
            if self._waiting < _MOST_WAITING or self._closed:
                self._waiting += 1
                return following, None
            parking = threading.Lock()
            parking.acquire()
            self._parked.append(parking)
            return following, parking
