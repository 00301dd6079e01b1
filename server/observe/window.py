# SPDX-License-Identifier: Apache-2.0
"""Rates of counters, from the readings taken whenever somebody asks: no thread polls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple


class Reading(NamedTuple):
    """Counters at a moment, monotonic ns."""

    at_ns: int
    counters: Mapping[str, float]


class Window:
    """Readings at least `interval_ns` apart. Any thread may ask. forget_ns: older ones are not compared with, 0 = any age."""

    def __init__(self, interval_ns: int, first: Reading, forget_ns: int = 0) -> None:
        self._interval_ns = interval_ns
        self._forget_ns = forget_ns
        self._readings: deque[Reading] = deque([first], maxlen=2)
        self._lock = threading.Lock()

    def rates(self, now: Reading) -> dict[str, float]:
        """Per second, over at least about the interval; a counter not read before has no rate, one that fell has 0."""
        with self._lock:
            before = self._readings[0]
            if now.at_ns - self._readings[-1].at_ns >= self._interval_ns:
                before = self._readings[-1]
                self._readings.append(now)
        seconds = (now.at_ns - before.at_ns) / 1e9
        if seconds <= 0 or 0 < self._forget_ns < now.at_ns - before.at_ns:
            return {}
        known = now.counters.keys() & before.counters.keys()
        return {key: max(0.0, (now.counters[key] - before.counters[key]) / seconds) for key in known}
