# SPDX-License-Identifier: Apache-2.0
"""Distributions of durations: buckets for Prometheus' histograms, and a sketch for its summaries.

Neither takes a lock; the owner's lock protects them. Durations are integers, in nanoseconds.
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
    """Counts of observations by bucket. The last bucket is for observations above all bounds."""

    __slots__ = ("bounds_ns", "counts", "total_ns")

    def __init__(self, bounds_ns: Sequence[int]) -> None:
        """Create a Histogram.

        Args:
            bounds_ns: the inclusive upper bounds of the buckets, ascending.
        """
        self.bounds_ns = tuple(bounds_ns)
        self.counts = [0] * (len(self.bounds_ns) + 1)
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """Add one observation."""
        self.counts[bisect_left(self.bounds_ns, ns)] += 1
        self.total_ns += ns


class SlidingQuantiles:
    """Quantiles of the observations of about the last minute, each within 1 % of the observation of that rank.

    It is a DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019), which counts observations by the next higher power of gamma. Here
    the counts are kept in slices of time, of which the oldest is dropped. It takes at most a few hundred integers, however many
    observations there are.
    """

    __slots__ = ("_slice_ns", "_slices", "_started_ns", "count", "total_ns")

    def __init__(self, window_s: float = 60.0, slices: int = 5) -> None:
        """Create a SlidingQuantiles.

        Args:
            window_s: how long observations count.
            slices: into how many parts that time is divided.
        """
        self._slice_ns = int(window_s * 1e9 / slices)
        self._slices: list[Counter[int]] = [Counter() for _ in range(slices)]
        self._started_ns = 0
        self.count = 0
        self.total_ns = 0

    def add(self, ns: int, now_ns: int) -> None:
        """Add one observation of `ns`.

        Args:
            now_ns: of time.monotonic_ns().
        """
        self._turn(now_ns)
        self._slices[-1][_index(ns)] += 1
        self.count += 1
        self.total_ns += ns

    def quantiles(self, wanted: Iterable[float], now_ns: int) -> dict[float, float]:
        """Return quantile -> ns, NaN if there are no recent observations.

        Args:
            wanted: from 0 to 1.
            now_ns: as in add().
        """
        self._turn(now_ns)
        counted: Counter[int] = Counter()
        for counts in self._slices:
            counted.update(counts)
        return {quantile: _quantile(counted, quantile) for quantile in wanted}

    def _turn(self, now_ns: int) -> None:
        """Drop the slices that are too old, and begin new ones."""
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
