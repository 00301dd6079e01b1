# SPDX-License-Identifier: Apache-2.0
"""The simulated time, and the events that are due: a heap."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Clock:
    """The simulated time `now` in seconds. Events of the same time happen in the order in which they were added."""

    __slots__ = ("_added", "_heap", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._added = 0
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []

    def at(self, time_s: float, handler: Callable[[Any], None], argument: Any = None) -> None:
        """Call `handler(argument)` at a time that has not passed."""
        self._added += 1
        heappush(self._heap, (time_s, self._added, handler, argument))

    def run(self, until_s: float) -> None:
        """Handle events in order until `until_s`; later ones are dropped."""
        heap = self._heap
        while heap:
            time_s, _, handler, argument = heappop(heap)
            if time_s > until_s:
                break
            self.now = time_s
            handler(argument)
        self.now = until_s
