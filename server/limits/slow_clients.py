# SPDX-License-Identifier: Apache-2.0
"""Clients that stop in the middle of a request, or of reading an answer: after a while they are cut off.

What waits for a client holds memory and may hold a thread. gRPC ends a call by itself only when the connection is lost, and a
client that merely stops reading keeps its connection alive.
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

_LOG = logging.getLogger(__name__)
#: slower than this is not sending
SLOWEST_BYTES_PER_S = 16_384
#: gRPC does not show how much of a message has come, nor how large it will be: a whole one may take so many times as long as a
#: silence, counted from when it is asked for; rpc/grpcio/call_queue.py gives its place away sooner when another client
#: waits for one
_WHOLE_MESSAGE = 10
#: nor how much of it has gone: slower than this is not reading
SLOWEST_READ_BYTES_PER_S = 256 * 1024
_LOOKS = 4
_LOOK_S = 1.0
#: between two lines of the log on one fault: whoever brings a thousand such connections does not fill the disk
_LINE_S = 1.0


class Fault(StrEnum):
    """The reason why a client is cut off: the metric's label."""

    SENDS_NOTHING = "sends_nothing"
    READS_NOTHING = "reads_nothing"
    READS_TOO_LITTLE = "reads_too_little"
    SENDS_TOO_LITTLE = "sends_too_little"
    SHUTDOWN = "shutdown"


class Waiting(Protocol):
    """A call that waits for its client."""

    @property
    def client(self) -> str:
        """The connection."""

    def cut_off(self, fault: Fault, text: str) -> None:
        """End it, telling the client why where it still listens. Called on a thread of its own."""


#: (what it will have done wrong, since when it is waited for, s it may take besides the timeout); a bare tuple, one is made
#: twice a request
_Entry = tuple[Fault, float, float]
_UNSENT = "the server is shutting down, and the rest of the request did not come"
_UNREAD = "the server is shutting down, and the answer was not read"


class SlowClients:
    """Any thread may call. timeout_s: how long a client may neither send nor read, 0 = for ever."""

    def __init__(self, timeout_s: float = 0.0) -> None:
        self.timeout_s = timeout_s or math.inf
        #: clients cut off since start
        self.counts = dict.fromkeys(Fault, 0)
        #: how long a client may do nothing at shutdown, None before; how long a large answer may take besides; when that began
        self.grace_s: float | None = None
        self.most_s = 0.0
        self._shutdown_s = math.inf
        self._lock = threading.Lock()
        self._entries: dict[Waiting, _Entry] = {}
        self._next_line = dict.fromkeys(Fault, 0.0)
        self._untold = dict.fromkeys(Fault, 0)
        self._urgent: queue.SimpleQueue[tuple[Waiting, Fault, str] | None] = queue.SimpleQueue()
        #: called at each look, on the thread that looks, at least once a second
        self.watchers: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._look, name="slow-clients", daemon=True).start()

    def close(self) -> None:
        """Nobody is cut off any more."""
        self._urgent.put(None)

    def begin_shutdown(self, grace_s: float, most_s: float) -> None:
        """The server shuts down: a client has `grace_s` from now on, or from when it is waited for. Called once.

        most_s: what the reader of a large answer may take besides.
        """
        self._shutdown_s, self.most_s = time.monotonic(), most_s
        self.grace_s = grace_s

    @property
    def owed(self) -> int:
        """Messages that were begun before begin_shutdown() and have not come."""
        entries = self._entries.copy().values()
        return sum(fault is Fault.SENDS_NOTHING and since < self._shutdown_s for fault, since, _ in entries)

    def sending(self, waiting: Waiting) -> None:
        """Its client has begun a message; forget() follows."""
        self._entries[waiting] = (Fault.SENDS_NOTHING, time.monotonic(), 0.0)

    def reading(self, waiting: Waiting, size_bytes: int) -> None:
        """Its client is given an answer; forget() follows."""
        self._entries[waiting] = (Fault.READS_NOTHING, time.monotonic(), size_bytes / SLOWEST_READ_BYTES_PER_S)

    def forget(self, waiting: Waiting) -> None:
        """Its client did what it should, or the call is over."""
        self._entries.pop(waiting, None)

    def cut_off(self, waiting: Waiting, fault: Fault, text: str) -> None:
        """At once, but on another thread: the caller may hold locks."""
        self._urgent.put((waiting, fault, text))

    def note(self, fault: Fault, client: str, text: str) -> None:
        """A client has been cut off: count it, and say so."""
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
            except Exception:  # noqa: BLE001 - the others, and slow clients, have to be looked at too
                _LOG.exception("a look failed")

    def _expire(self, now: float) -> None:
        for waiting, entry in self._entries.copy().items():
            if (due := self._due(entry, now)) and self._entries.get(waiting) is entry:
                self.forget(waiting)
                self._cut(waiting, *due)

    def _due(self, entry: _Entry, now: float) -> tuple[Fault, str] | None:
        """The fault its client is to be cut off for now, and the words for it."""
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
        except Exception:  # noqa: BLE001 - one call's end must not end the thread that looks after all
            _LOG.exception("client %s could not be cut off", waiting.client)
        else:
            self.note(fault, waiting.client, text)
