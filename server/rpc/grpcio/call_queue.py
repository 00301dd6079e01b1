# SPDX-License-Identifier: Apache-2.0
"""CallQueue: unary methods of a grpc.Server, served by threads that wait on gRPC core's completion queue themselves.

    grpc.Server:  poller --call--> pool thread --read--> poller --message--> pool thread: handler --send--> poller
    CallQueue:    a thread: call, read | the same or another one: message, handler, send | ...

grpcio's server wakes a thread of its pool twice per call, each time through a futex and the interpreter's lock: half of what a
small request costs it. Here whoever gets the message runs the handler, having made sure that somebody waits for the next event
(leader and followers: Schmidt et al., Pattern-Oriented Software Architecture 2). Ports, TLS, all other methods and shutdown
stay the server's.

A handler whose answer takes long returns a Reply instead, and its thread serves others: how many calls wait for a model is no
matter of threads.

While a message is read no thread waits for it: grpcio's server has one do so, and as many clients as there are threads, each
with half a message, would hold up everybody. Messages that are being read take memory, so their number is bounded together with
that of the handlers that run, and these places are shared by address, then by connection (see budget.py): many halves of one
address leave places for others at once. When so many addresses do that that none is left, a call that waits is given the place
of a message that has been on its way for a second or more and whose address holds two more places than the waiting one.

Calls without a place wait, unread; addresses take turns, connections of an address too. Waiting calls are bounded and shared in
the same way, and refused past that.

It is built on what grpcio's own _server.py is built on and does not document, grpc._cython.cygrpc. Where a part of that is
missing take_calls() gives None, and the server's own threads serve the method, only slower.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import grpc

from hypersonic.server.limits.budget import Budget
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.slow_clients import Fault, SlowClients
from hypersonic.server.rpc.grpcio.core import cygrpc
from hypersonic.server.rpc.grpcio.direct_call import DirectCall

_LOG = logging.getLogger(__name__)
#: threads that wait for events though no handler runs; more would only get in each other's way
_MOST_WAITING = 2
#: calls that wait for a place: each takes some 10 kB, and what gRPC takes of a message before somebody asks for it (64 KiB to
#: 4 MiB of what the client really sends, as gRPC core finds the connection slow or fast)
_MOST_UNREAD = 4096
#: a message that has been on its way for less keeps its place
_GRACE_S = 1.0
_REFUSAL = (
    "too many calls wait for their message to be read, and one more exceeds the share of this client's address: send it later"
)
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
    peers: Peers | None = None,
) -> CallQueue | None:
    """Take `methods` (/package.Service/Method) over from a server that is not started; None where grpcio does not let us.

    handler: asked for each call before its message is read. It gives a unary-unary handler, whose serializers are not used, or
    one whose request is a stream: a refusal, which is run at once and reads nothing. threads: calls read or run at a time.
    clients: who looks after clients that stop, None = nobody. peers: which clients count as one.
    """
    core = getattr(server, "_cy_server", None)
    missing = [kind for kind, names in _NEEDED.items() if not _has(getattr(cygrpc, kind, None), names)]
    if core is None or missing:
        _LOG.warning("grpcio %s has no %s: %s is slower", grpc.__version__, ", ".join(missing) or "_cy_server", methods[0])
        return None
    return CallQueue(core, methods, handler, threads, clients or SlowClients(), peers or Peers())


def _has(kind: object, names: tuple[str, ...]) -> bool:
    return kind is not None and all(hasattr(kind, name) for name in names)


class CallQueue:
    """Order of calls: take_calls, the server's start, start, the server's stop, close."""

    def __init__(
        self,
        core: Any,
        methods: Sequence[str],
        handler: grpc.GenericRpcHandler,
        threads: int,
        clients: SlowClients,
        peers: Peers,
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
        #: calls whose message is being read or whose handler runs
        self._places = Budget(threads, peers)
        self._address_of = peers.address_of
        #: address -> its calls whose message is being read, oldest first, and since when
        self._reading: dict[str, dict[DirectCall, float]] = {}
        #: address -> connection -> its calls that have to wait
        self._unread: dict[str, dict[str, dict[DirectCall, None]]] = {}
        #: how many of those
        self.unread = Budget(_MOST_UNREAD, peers)
        clients.watchers.append(self._make_room)
        #: threads that wait for an event, or are about to
        self._waiting = 0
        #: threads without work, each waiting for its lock; the one used last is called first
        self._parked: list[threading.Lock] = []
        #: calls whose handler has come back, and whose answer comes later
        self._promised = 0
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
        if self._closed and not self._places.used and not self._promised:
            self._queue.shutdown()

    def _promise(self, change: int) -> None:
        """An answer is to come later, or has come."""
        with self._lock:
            self._promised += change
        if self._closed:
            self._end()

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
        call = DirectCall(event, method, self._handler, self._clients, self._promise)
        if call.is_refused:
            call.run()
            return
        with self._lock:
            may_read = self._places.fits(1, call.client)
            has_to_wait = not may_read and self.unread.fits(1, call.client)
            if may_read:
                self._begin(call)
            elif has_to_wait:
                self._wait(call)
            else:
                self.unread.refused(call.client)
        if may_read:
            call.read()
        elif has_to_wait:
            if not call.add_callback(partial(self._give_up, call)):
                self._give_up(call)
        else:
            call.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, _REFUSAL)

    def _begin(self, call: DirectCall) -> None:
        """Count it as being read; read() follows, without the lock."""
        self._places.take(1, call.client)
        self._reading.setdefault(self._address_of(call.client), {})[call] = time.monotonic()

    def _wait(self, call: DirectCall) -> None:
        self.unread.take(1, call.client)
        connections = self._unread.setdefault(self._address_of(call.client), {})
        connections.setdefault(call.client, {})[call] = None

    def _give_up(self, call: DirectCall) -> None:
        """It has ended: one that still waits leaves the queue."""
        with self._lock:
            self._leave_queue(call)

    def _leave_queue(self, call: DirectCall) -> bool:
        """Whether it was in it. Its connection, and its address, get behind the others."""
        address = self._address_of(call.client)
        connections = self._unread.get(address, {})
        calls = connections.get(call.client, {})
        if call not in calls:
            return False
        del calls[call], connections[call.client], self._unread[address]
        if calls:
            connections[call.client] = calls
        if connections:
            self._unread[address] = connections
        self.unread.release(1, call.client)
        return True

    def _has_read(self, call: DirectCall) -> None:
        """Its message is here, or never comes."""
        with self._lock:
            address = self._address_of(call.client)
            reading = self._reading[address]
            del reading[call]
            if not reading:
                del self._reading[address]

    def _next(self) -> DirectCall | None:
        """A call that had to wait and may be read now."""
        if self._places.used >= self._places.limit:
            return None
        for connections in self._unread.values():
            for client, calls in connections.items():
                by_address, by_connection = self._places.room(client)
                if by_connection > 0:
                    call = next(iter(calls))
                    self._leave_queue(call)
                    self._begin(call)
                    return call
                if by_address <= 0:
                    break
        return None

    def _make_room(self) -> None:
        """For each address that waits, take the place of a message that is on its way from one that has more places."""
        with self._lock:
            waiting = [next(iter(connections)) for connections in self._unread.values()]
            waiting.sort(key=lambda client: self._places.held(client)[0])
        for client in waiting:
            with self._lock:
                slowest = self._slowest(self._places.held(client)[0] + 2)
            if slowest is None:
                return
            self._clients.forget(slowest)
            self._clients.cut_off(slowest, Fault.SENDS_TOO_LITTLE, "its message did not come while others waited for its place")

    def _slowest(self, least: int) -> DirectCall | None:
        """The oldest message of the address that is reading most, if those are `least` and it had time; it is named once."""
        calls = max(self._reading.values(), key=len, default={})
        if len(calls) < least:
            return None
        call, since = next(iter(calls.items()))
        if since > time.monotonic() - _GRACE_S:
            return None
        calls[call] = math.inf  # and behind the others
        calls[call] = calls.pop(call)
        return call

    def _run(self, call: DirectCall) -> None:
        """Run a call's handler while another thread waits for events; then be one of those that do, or without work."""
        self._let_follow()
        try:
            call.run()
        except Exception:  # noqa: BLE001 - no memory, say: this call is lost, not the thread that serves all
            _LOG.exception("an answer of %s could not be sent", call.method)
        following, parking = self._hand_over(call)
        for other in following:
            other.read()
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

    def _hand_over(self, call: DirectCall) -> tuple[list[DirectCall], threading.Lock | None]:
        """(the calls that may be read now, the lock to wait for because enough threads wait for events)."""
        with self._lock:
            self._places.release(1, call.client)
            following = list(iter(self._next, None)) if self._unread else []
            if self._waiting < _MOST_WAITING or self._closed:
                self._waiting += 1
                return following, None
            parking = threading.Lock()
            parking.acquire()
            self._parked.append(parking)
            return following, parking
