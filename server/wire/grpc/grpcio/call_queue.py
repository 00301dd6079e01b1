# SPDX-License-Identifier: Apache-2.0
"""CallQueue: serves unary methods of a grpc.Server on threads that wait on gRPC core's completion queue themselves.

::

    grpc.Server:  poller --call--> pool thread --read--> poller --message--> pool thread: handler --send--> poller
    CallQueue:    a thread: call, read | the same or another one: message, handler, send | ...

grpcio's server wakes a thread of its pool twice per call, each time through a futex and the interpreter's lock; that is half of
the cost of a small request. Here the thread that receives the message runs the handler, after it has made sure that another
thread waits for the next event (the Leader/Followers pattern: Schmidt et al., Pattern-Oriented Software Architecture 2). The
server still handles ports, TLS, all other methods and shutdown.

A handler whose answer takes long returns a Reply instead, and its thread serves other calls. The number of calls that wait for
a model therefore does not depend on the number of threads.

No thread waits while a message is read. In grpcio's server a thread does, so that clients that each send half a message could
occupy all threads and block everybody else. Messages that are being read take memory, so a fixed number of places bounds them
and the running handlers together. The places are shared among addresses, then among connections (see budget.py): an address
that sends many half messages always leaves places for others. If so many addresses do this that no place is left, a waiting
call takes the place of a message that has been under way for a second or more and whose address holds at least two more places
than the waiting call's address.

Calls without a place wait, unread. Addresses take turns, and so do the connections of an address. The number of waiting calls
is bounded and shared in the same way; further calls are refused.

It is built on grpc._cython.cygrpc, the undocumented module below grpcio's own _server.py. If any part that it needs is missing,
take_calls() returns None, and the server's own threads serve the methods more slowly.
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
from hypersonic.server.wire.grpc.grpcio.core import cygrpc
from hypersonic.server.wire.grpc.grpcio.direct_call import DirectCall

_LOG = logging.getLogger(__name__)
#: the most threads that wait for events; more would only compete with each other
_MOST_WAITING = 2
#: the most calls that wait for a place. Each takes about 10 kB, and whatever gRPC receives of a message before it is asked for
#: (64 KiB to 4 MiB of what the client sends, depending on how fast gRPC core finds the connection)
_MOST_UNREAD = 4096
#: a message that has been under way for less than this keeps its place
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
    """Take over `methods` (/package.Service/Method) from a server that has not started.

    Returns None if grpcio lacks what this needs.

    Args:
        handler: asked for each call before its message is read. It returns a unary-unary handler, whose serializers are not
            used, or a handler whose request is a stream. The latter is a refusal: it is run at once and reads nothing.
        threads: the most calls that are read or run at one time.
        clients: cuts off slow clients; None = nothing does.
        peers: tells which clients share an address.
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
    """The threads, the calls and the places of some unary methods.

    Order of calls: take_calls(), the server's start(), start(), the server's stop(), close().
    """

    def __init__(
        self,
        core: Any,
        methods: Sequence[str],
        handler: grpc.GenericRpcHandler,
        threads: int,
        clients: SlowClients,
        peers: Peers,
    ) -> None:
        """Use take_calls(), which explains the arguments.

        Args:
            core: the server's Cython object.
        """
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
        #: address -> its calls whose message is being read, oldest first -> since when, in seconds of time.monotonic()
        self._reading: dict[str, dict[DirectCall, float]] = {}
        #: address -> connection -> its calls that wait for a place
        self._unread: dict[str, dict[str, dict[DirectCall, None]]] = {}
        #: how many calls wait for a place
        self.unread = Budget(_MOST_UNREAD, peers)
        clients.watchers.append(self._make_room)
        #: threads that wait for an event, or are about to
        self._waiting = 0
        #: threads without work, each waiting for its lock; the one that was parked last is woken first
        self._parked: list[threading.Lock] = []
        #: the threads that are in gRPC core, waiting for an event
        self._polling: set[int] = set()
        #: how often a thread went there, and how often before the last comes_round()
        self._rounds = self._rounds_before = 0
        #: calls whose handler has returned and whose answer is still to be sent
        self._promised = 0
        self._closed = False

    def start(self) -> None:
        """Begin to take calls. The server has to be started already."""
        for method in self._methods:
            self._request(method)
        self._waiting = 1
        self._add_thread()

    def close(self) -> None:
        """End the threads, each when the handler that it runs has returned. The server has to be stopped already."""
        with self._lock:
            self._closed = True
            parked, self._parked = self._parked, []
            self._waiting += len(parked)
        for thread in parked:
            thread.release()
        self._end()

    def _end(self) -> None:
        """Shut the queue down once no call is under way: gRPC core forbids operations on a queue that has been shut down."""
        if self._closed and not self._places.used and not self._promised:
            self._queue.shutdown()

    def _promise(self, change: int) -> None:
        """Count an answer that will be sent later (+1), or one that has been (-1)."""
        with self._lock:
            self._promised += change
        if self._closed:
            self._end()

    def _request(self, method: str) -> None:
        """Ask for the next call, which is reported by an event whose tag is the method."""
        self._core.request_registered_call(self._queue, self._queue, method, method)

    def _add_thread(self) -> None:
        threading.Thread(target=self._serve, name="grpc-infer", daemon=True).start()

    def comes_round(self) -> bool:
        """Return False if no thread waits for calls now, or has begun to since the last question."""
        before, self._rounds_before = self._rounds_before, self._rounds
        return bool(self._polling) or self._rounds != before

    def _serve(self) -> None:
        thread = threading.get_ident()
        while True:
            self._rounds += 1
            self._polling.add(thread)
            try:
                event = self._queue.poll(None)
            finally:
                self._polling.discard(thread)
            if event.completion_type == self._shut_down:
                return
            if type(event.tag) is str:
                self._arrive(event, event.tag)
            elif (call := event.tag(event)) is not None:
                self._run(call)
                del call
            del event  # it may refer to a message, which must not stay in memory until the next event

    def _arrive(self, event: Any, method: str) -> None:
        """Handle the arrival of a call, or (when the event failed) the server's shutdown."""
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
        """Count a call as being read. The caller then calls read(), without the lock."""
        self._places.take(1, call.client)
        self._reading.setdefault(self._address_of(call.client), {})[call] = time.monotonic()

    def _wait(self, call: DirectCall) -> None:
        self.unread.take(1, call.client)
        connections = self._unread.setdefault(self._address_of(call.client), {})
        connections.setdefault(call.client, {})[call] = None

    def _give_up(self, call: DirectCall) -> None:
        """Remove a call that has ended from the queue, if it still waits."""
        with self._lock:
            self._leave_queue(call)

    def _leave_queue(self, call: DirectCall) -> bool:
        """Remove a call from the queue, and move its connection and its address behind the others.

        Returns whether the call was queued.
        """
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
        """Record that the message of a call has been read, or will never arrive. The lock is held."""
        address = self._address_of(call.client)
        reading = self._reading[address]
        del reading[call]
        if not reading:
            del self._reading[address]

    def _next(self) -> DirectCall | None:
        """Return a waiting call that may be read now, counted as being read; None if there is none."""
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
        """For each address that waits, cut off a message that is under way from an address that has more places."""
        with self._lock:
            waiting = [next(iter(connections)) for connections in self._unread.values()]
            waiting.sort(key=lambda client: self._places.held(client)[0])
        for client in waiting:
            with self._lock:
                slowest = self._slowest(self._places.held(client)[0] + 2)
            if slowest is None:
                return
            self._clients.forget(slowest)
            text = "its message did not arrive while others waited for its place"
            self._clients.cut_off(slowest, Fault.SENDS_TOO_LITTLE, text)

    def _slowest(self, least: int) -> DirectCall | None:
        """Return the oldest message of the address with the most messages being read, once for each message.

        Returns None if that address has fewer than `least`, or if the message has been under way for less than _GRACE_S.
        """
        calls = max(self._reading.values(), key=len, default={})
        if len(calls) < least:
            return None
        call, since = next(iter(calls.items()))
        if since > time.monotonic() - _GRACE_S:
            return None
        calls[call] = math.inf  # and move it behind the others
        calls[call] = calls.pop(call)
        return call

    def _run(self, call: DirectCall) -> None:
        """Run a call's handler while another thread waits for events. Then return to wait for events, or park the thread."""
        self._let_follow(call)
        try:
            call.run()
        except Exception:  # noqa: BLE001 - for example, no memory: the call is lost, but not the thread that serves all calls
            _LOG.exception("an answer of %s could not be sent", call.method)
        following, parking = self._hand_over(call)
        for other in following:
            other.read()
        if self._closed:
            self._end()
        if parking is not None:
            parking.acquire()

    def _let_follow(self, call: DirectCall) -> None:
        """Make sure that another thread waits for events while this one runs the handler of a call, which has been read."""
        with self._lock:
            self._has_read(call)
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
        except RuntimeError:  # no memory for a stack: events wait until this thread returns
            _LOG.exception("no thread to wait for calls")
            with self._lock:
                self._waiting -= 1

    def _hand_over(self, call: DirectCall) -> tuple[list[DirectCall], threading.Lock | None]:
        """Release a call's place after its handler has run.

        Returns (the waiting calls that may be read now, a lock on which this thread has to wait because enough other threads
        wait for events; None = this thread waits for events too).
        """
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
