# SPDX-License-Identifier: Apache-2.0
"""SlowClients: cuts off clients that stop in the middle of a request, or of reading an answer.

A call that waits for its client holds memory and may hold a thread. gRPC itself ends a call only when the connection is lost,
and a client that merely stops reading keeps its connection alive.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

from hypersonic.server.limits.supervisor import Supervisor

_LOG = logging.getLogger(__name__)
#: the lowest rate at which a client may send
SLOWEST_BYTES_PER_S = 16_384
#: gRPC reports neither how much of a message has arrived nor how large it will be. A whole message may therefore take this many
#: timeouts, counted from when it was asked for; wire/grpc/grpcio/call_queue.py cuts it off earlier when another client waits
#: for its place
_WHOLE_MESSAGE = 10
#: the lowest rate at which a client may read; gRPC does not report how much of an answer has been sent, either
SLOWEST_READ_BYTES_PER_S = 256 * 1024
#: checks per timeout
_LOOKS = 4
#: the longest time between two checks
_LOOK_S = 1.0
#: the shortest time between two log lines about one fault, so that a thousand such connections do not fill the disk
_LINE_S = 1.0


class Fault(StrEnum):
    """Why a client is cut off; the `reason` label of the metric."""

    SENDS_NOTHING = "sends_nothing"
    READS_NOTHING = "reads_nothing"
    READS_TOO_LITTLE = "reads_too_little"
    SENDS_TOO_LITTLE = "sends_too_little"
    SHUTDOWN = "shutdown"


class Waiting(Protocol):
    """A call that waits for its client."""

    @property
    def client(self) -> str:
        """The client's connection."""

    def cut_off(self, fault: Fault, text: str) -> None:
        """End the call.

        Called on the thread of SlowClients.

        Args:
            text: the reason, for a client that still listens.
        """


#: (the fault if the time runs out, when the wait for the client began, seconds allowed in addition to the timeout). A plain
#: tuple, because two are made for each request
_Entry = tuple[Fault, float, float]
_UNSENT = "the server is shutting down, and the rest of the request did not arrive"
_UNREAD = "the server is shutting down, and the answer was not read"


class SlowClients:
    """The calls that wait for their clients, and the time limits. Any thread may call."""

    def __init__(self, timeout_s: float = 0.0) -> None:
        """Create a SlowClients.

        Args:
            timeout_s: how long a client may send nothing or read nothing, 0 = no limit.
        """
        #: seconds; inf = no limit
        self.timeout_s = timeout_s or math.inf
        #: clients that were cut off since start, by fault
        self.counts = dict.fromkeys(Fault, 0)
        #: how long a client may do nothing at shutdown, in seconds; None before the shutdown
        self.grace_s: float | None = None
        #: how long reading a large answer may take in addition, at shutdown
        self.most_s = 0.0
        #: when the shutdown began
        self._shutdown_s = math.inf
        self._lock = threading.Lock()
        self._entries: dict[Waiting, _Entry] = {}
        self._next_line = dict.fromkeys(Fault, 0.0)
        self._untold = dict.fromkeys(Fault, 0)
        self._urgent: queue.SimpleQueue[tuple[Waiting, Fault, str] | None] = queue.SimpleQueue()
        #: called at each check, on the thread that checks, at least once a second
        self.watchers: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start the thread that checks the clients."""
        Supervisor("clients", lambda: None, "restart the server").start("slow-clients", self._look)

    def close(self) -> None:
        """End the thread that checks the clients."""
        self._urgent.put(None)

    def begin_shutdown(self, grace_s: float, most_s: float) -> None:
        """Set the time limits of the shutdown. Called once.

        Args:
            grace_s: how long a client may do nothing, counted from now or, if that is later, from when the wait for it begins.
            most_s: how much longer the reader of a large answer may take.
        """
        self._shutdown_s, self.most_s = time.monotonic(), most_s
        self.grace_s = grace_s

    @property
    def owed(self) -> int:
        """The number of messages that were begun before begin_shutdown() and have not arrived."""
        entries = self._entries.copy().values()
        return sum(fault is Fault.SENDS_NOTHING and since < self._shutdown_s for fault, since, _ in entries)

    def sending(self, waiting: Waiting) -> None:
        """Begin to wait for a client's message, until forget() is called."""
        self._entries[waiting] = (Fault.SENDS_NOTHING, time.monotonic(), 0.0)

    def reading(self, waiting: Waiting, size_bytes: int) -> None:
        """Begin to wait for a client that reads an answer of `size_bytes`, until forget() is called."""
        self._entries[waiting] = (Fault.READS_NOTHING, time.monotonic(), size_bytes / SLOWEST_READ_BYTES_PER_S)

    def forget(self, waiting: Waiting) -> None:
        """Stop waiting for a client: it has sent or read its message, or the call is over."""
        self._entries.pop(waiting, None)

    def cut_off(self, waiting: Waiting, fault: Fault, text: str) -> None:
        """Cut a client off at once, but on another thread, because the caller may hold locks."""
        self._urgent.put((waiting, fault, text))

    def note(self, fault: Fault, client: str, text: str) -> None:
        """Count and log a client that has been cut off."""
        now = time.monotonic()
        with self._lock:
            self.counts[fault] += 1
            if now < self._next_line[fault]:
                self._untold[fault] += 1
                return
            untold, self._untold[fault] = self._untold[fault], 0
            self._next_line[fault] = now + _LINE_S
        more = f" (and {untold} more before it)" if untold else ""
        _LOG.warning("client %s is cut off: %s%s", client, text, more)

    def _look(self) -> None:
        interval_s = min(_LOOK_S, self.timeout_s / _LOOKS)
        next_look = time.monotonic() + interval_s
        while True:
            left_s = next_look - time.monotonic()
            if left_s <= 0:
                self._expire(time.monotonic())
                self._watch()
                next_look = time.monotonic() + interval_s
                continue
            with suppress(queue.Empty):
                item = self._urgent.get(timeout=left_s)
                if item is None:
                    return
                self._cut(*item)

    def _watch(self) -> None:
        for watcher in self.watchers:
            try:
                watcher()
            except Exception:  # noqa: BLE001 - the other watchers, and slow clients, have to be checked too
                _LOG.exception("a periodic check failed")

    def _expire(self, now: float) -> None:
        for waiting, entry in self._entries.copy().items():
            if (due := self._due(entry, now)) and self._entries.get(waiting) is entry:
                self.forget(waiting)
                self._cut(waiting, *due)

    def _due(self, entry: _Entry, now: float) -> tuple[Fault, str] | None:
        """Return the fault for which the client has to be cut off now, and its text; None if it has time left."""
        fault, since, more_s = entry
        sends = fault is Fault.SENDS_NOTHING
        if since + more_s + self.timeout_s * (_WHOLE_MESSAGE if sends else 1) <= now:
            what = "sent no more of its request" if sends else "did not read its answer"
            return fault, f"it {what} for {now - since:.0f} s"
        if self.grace_s is not None and max(since, self._shutdown_s) + self.grace_s + min(more_s, self.most_s) <= now:
            return Fault.SHUTDOWN, _UNSENT if sends else _UNREAD
        return None

    def _cut(self, waiting: Waiting, fault: Fault, text: str) -> None:
        try:
            waiting.cut_off(fault, text)
        except Exception:  # noqa: BLE001 - one call must not end the thread that checks all calls
            _LOG.exception("client %s could not be cut off", waiting.client)
        else:
            self.note(fault, waiting.client, text)
