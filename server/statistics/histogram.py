# SPDX-License-Identifier: Apache-2.0
"""How long things take, distributed: buckets for Prometheus' histograms, a sketch for its summaries.

Neither takes a lock: they live under their owner's. Durations are integers of nanoseconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

#: relative error of a quantile
_ALPHA = 0.01
_GAMMA = (1 + _ALPHA) / (1 - _ALPHA)
_LOG_GAMMA = math.log(_GAMMA)


class Histogram:
    """Counts by bucket. bounds_ns: ascending upper bounds, inclusive; what lies above the last has a bucket of its own."""

    __slots__ = ("bounds_ns", "counts", "total_ns")

    def __init__(self, bounds_ns: Sequence[int]) -> None:
        self.bounds_ns = tuple(bounds_ns)
        self.counts = [0] * (len(self.bounds_ns) + 1)
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """One observation."""
        self.counts[bisect_left(self.bounds_ns, ns)] += 1
        self.total_ns += ns

    def copy(self) -> Histogram:
        copied = Histogram(self.bounds_ns)
        copied.counts[:] = self.counts
        copied.total_ns = self.total_ns
        return copied


class SlidingQuantiles:
    """Quantiles of the observations of about the last minute, each within 1 % of an observation of that rank.

    A DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019): observations counted by the power of gamma above them, here in slices
    of time of which the oldest is dropped. At most a few hundred integers, however many observations.
    """

    __slots__ = ("_slice_ns", "_slices", "_started_ns", "count", "total_ns")

    def __init__(self, window_s: float = 60.0, slices: int = 5) -> None:
        self._slice_ns = int(window_s * 1e9 / slices)
        self._slices: list[Counter[int]] = [Counter() for _ in range(slices)]
        self._started_ns = 0
        self.count = 0
        self.total_ns = 0

    def add(self, ns: int, now_ns: int) -> None:
        """One observation, made now (monotonic)."""
        self._turn(now_ns)
        self._slices[-1][_index(ns)] += 1
        self.count += 1
        self.total_ns += ns

    def quantiles(self, wanted: Iterable[float], now_ns: int) -> dict[float, float]:
        """quantile -> ns; NaN when there was no observation lately."""
        self._turn(now_ns)
        counted: Counter[int] = Counter()
        for counts in self._slices:
            counted.update(counts)
        return {quantile: _quantile(counted, quantile) for quantile in wanted}

    def copy(self) -> SlidingQuantiles:
        copied = SlidingQuantiles(slices=len(self._slices))
        copied._slice_ns, copied._started_ns = self._slice_ns, self._started_ns
        copied._slices = [Counter(counts) for counts in self._slices]
        copied.count, copied.total_ns = self.count, self.total_ns
        return copied

    def _turn(self, now_ns: int) -> None:
        """Begin a new slice where the time for it has come."""
        passed = min((now_ns - self._started_ns) // self._slice_ns, len(self._slices)) if self._started_ns else 0
        for _ in range(passed):
            del self._slices[0]
            self._slices.append(Counter())
        if passed or not self._started_ns:
            self._started_ns = now_ns


def _index(ns: int) -> int:
    return math.ceil(math.log(ns) / _LOG_GAMMA) if ns > 1 else 0


def _quantile(counted: Counter[int], quantile: float) -> float:
    rank = quantile * (counted.total() - 1)
    below = 0
    for index in sorted(counted):
        below += counted[index]
        if below > rank:
            return 2 * math.pow(_GAMMA, index) / (_GAMMA + 1)
    return math.nan
