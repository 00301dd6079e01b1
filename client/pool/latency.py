# SPDX-License-Identifier: Apache-2.0
"""A histogram of latencies, for quantiles of any number of requests in little memory."""

from __future__ import annotations

import math
from collections import Counter

#: buckets per factor of two: a quantile is right within a factor of 2**(1/32), 2.2 %
_STEPS = 16


class Latencies:
    """Counts latencies by the logarithm of their nanoseconds. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, latency_ns: int) -> None:
        """Count one latency."""
        self._counts[round(_STEPS * math.log2(max(latency_ns, 1)))] += 1

    @property
    def count(self) -> int:
        """The number of latencies."""
        return self._counts.total()

    def quantile_ns(self, share: float) -> float:
        """Return the latency in ns that a `share` (0 to 1) of the requests does not exceed; NaN if there were none."""
        wanted, below = share * self.count, 0
        for step in sorted(self._counts):
            below += self._counts[step]
            if below >= wanted:
                return float(2 ** (step / _STEPS))
        return math.nan
