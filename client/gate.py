# SPDX-License-Identifier: Apache-2.0
"""Limits the requests in flight, by number and by bytes. Callers that have to wait are served in the order of arrival."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from hypersonic.client.settings import Limits


class Gate:
    """Counts the requests in flight. Any thread may use it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._requests = self._bytes = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def try_enter(self, size: int) -> bool:
        """Take room for a request of `size` bytes. Returns False if there is none, or if others are waiting."""
        with self._lock:
            if self._waiting or not self._fits(size):
                return False
            self._take(size)
            return True

    def enter(self, size: int, granted: Callable[[], None]) -> None:
        """Take room as soon as there is some, then call `granted`: at once, or later on the thread that calls leave()."""
        with self._lock:
            at_once = not self._waiting and self._fits(size)
            if at_once:
                self._take(size)
            else:
                self._waiting.append((size, granted))
        if at_once:
            granted()

    def wait(self, size: int, until: float = math.inf) -> bool:
        """Wait for room and take it. An interrupted wait takes none.

        Args:
            until: in seconds of time.monotonic().

        Returns:
            False if there was no room by then.
        """
        if self.try_enter(size):
            return True
        ready = threading.Event()
        self.enter(size, ready.set)
        try:
            entered = ready.wait(_seconds_until(until))
        except BaseException:  # such as Ctrl-C
            self._withdraw(size, ready.set)
            raise
        if not entered:
            self._withdraw(size, ready.set)
        return entered

    def leave(self, size: int) -> None:
        """Give back the room of a request that is over."""
        with self._lock:
            self._requests -= 1
            self._bytes -= size
            granted = self._admit()
        for call in granted:
            call()

    def _withdraw(self, size: int, granted: Callable[[], None]) -> None:
        """Stop waiting, or give the room back if it was granted meanwhile."""
        with self._lock:
            waits = (size, granted) in self._waiting
            if waits:
                self._waiting.remove((size, granted))
            others = self._admit() if waits else []
        for call in others:
            call()
        if not waits:
            self.leave(size)

    def _admit(self) -> list[Callable[[], None]]:
        """Admit those who have waited longest while there is room; return their callbacks. Called with the lock held."""
        granted = []
        while self._waiting and self._fits(self._waiting[0][0]):
            size, call = self._waiting.popleft()
            self._take(size)
            granted.append(call)
        return granted

    def _fits(self, size: int) -> bool:
        """Return whether there is room. A request above the limit of bytes is sent alone."""
        if self._requests >= self._limits.in_flight:
            return False
        return self._bytes + size <= self._limits.bytes_in_flight or self._requests == 0

    def _take(self, size: int) -> None:
        self._requests += 1
        self._bytes += size


def _seconds_until(until: float) -> float | None:
    """Return the seconds that an Event may wait; None without a limit."""
    return None if until == math.inf else min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
