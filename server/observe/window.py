# SPDX-License-Identifier: Apache-2.0
"""Rates of counters, from readings that are taken whenever they are requested; no thread polls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple


class Reading(NamedTuple):
    """The values of counters at one moment, in monotonic ns."""

    at_ns: int
    counters: Mapping[str, float]


class ReadingsWindow:
    """Readings that are at least `interval_ns` apart. Any thread may use it.

    Args:
        forget_ns: the largest age of a reading to compare with, 0 = any age.
    """

    def __init__(self, interval_ns: int, first: Reading, forget_ns: int = 0) -> None:
        self._interval_ns = interval_ns
        self._forget_ns = forget_ns
        self._readings: deque[Reading] = deque([first], maxlen=2)
        self._lock = threading.Lock()

    def rates(self, now: Reading) -> dict[str, float]:
        """Return the rates per second, over about the interval or longer.

        A counter that the earlier reading lacks began at 0 since then; one that decreased has rate 0.
        """
        with self._lock:
            before = self._readings[0]
            if now.at_ns - self._readings[-1].at_ns >= self._interval_ns:
                before = self._readings[-1]
                self._readings.append(now)
        seconds = (now.at_ns - before.at_ns) / 1e9
        if seconds <= 0 or 0 < self._forget_ns < now.at_ns - before.at_ns:
            return {}
        return {key: max(0.0, (count - before.counters.get(key, 0.0)) / seconds) for key, count in now.counters.items()}
