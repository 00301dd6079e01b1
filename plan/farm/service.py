# SPDX-License-Identifier: Apache-2.0
"""Service times: how long a compute unit works on an execution, or a core on a request, as a function of its rows.

A service time is a frozen description. `sampler` turns it into a function that draws times from a given random generator, so
that the same seed gives the same times.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Protocol, runtime_checkable

from hypersonic.plan.farm.errors import FarmError, check_not_negative, check_positive

#: rows -> seconds
Sampler = Callable[[int], float]


@runtime_checkable
class ServiceTime(Protocol):
    """The distribution of a service time. Constant, Linear and Histogram implement it."""

    def mean_s(self, rows: int) -> float:
        """Return the mean in seconds for so many rows."""
        ...

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation at a given number of rows."""
        ...

    def sampler(self, random: Random) -> Sampler:
        """Return a function from rows to a time in seconds, which draws from `random`."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same time for every execution, whatever its rows.

    Attributes:
        seconds: 0 or more.
    """

    seconds: float

    def __post_init__(self) -> None:
        check_not_negative(seconds=self.seconds)

    def mean_s(self, rows: int) -> float:  # noqa: ARG002 - the protocol's
        """Return the constant."""
        return self.seconds

    @property
    def cv2(self) -> float:
        """No variation."""
        return 0.0

    def sampler(self, random: Random) -> Sampler:  # noqa: ARG002 - the protocol's
        """Return a function that returns the constant."""
        seconds = self.seconds
        return lambda _rows: seconds


#: takes no time
NO_TIME = Constant(0.0)


@dataclass(frozen=True)
class Linear:
    """fixed_s + row_s * rows, without randomness: a start-up time and a time for each row. For a compute unit of one row every
    `ii` clocks, row_s is ii / clock_hz.
    """

    fixed_s: float
    row_s: float

    def __post_init__(self) -> None:
        check_not_negative(fixed_s=self.fixed_s, row_s=self.row_s)

    def mean_s(self, rows: int) -> float:
        """Return the time for so many rows."""
        return self.fixed_s + self.row_s * rows

    @property
    def cv2(self) -> float:
        """No variation."""
        return 0.0

    def sampler(self, random: Random) -> Sampler:  # noqa: ARG002 - the protocol's
        """Return a function that computes the time."""
        return self.mean_s


@dataclass(frozen=True)
class Histogram:
    """A measured distribution, whatever the rows: a Prometheus histogram, such as Triton's
    `nv_inference_compute_infer_duration_histogram_us`.

    Raises FarmError if bounds and counts do not make a histogram with at least one observation at or below a finite bound.

    Attributes:
        bounds_s: the upper bounds of the buckets in seconds, ascending; the last one may be infinite.
        counts: for each bound the number of observations at or below it (cumulative, as in Prometheus).
        mean: the measured mean in seconds (sum / count), or None. Times are uniform inside a bucket; those above the last
            finite bound equal it, as histogram_quantile() assumes. With a mean all times are scaled by one factor, so that
            their mean is the measured one.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    mean: float | None = None

    def __post_init__(self) -> None:
        if not self.bounds_s or len(self.bounds_s) != len(self.counts):
            raise FarmError(
                f"a histogram has {len(self.bounds_s)} bounds and {len(self.counts)} counts, expected one count for each "
                "bound; pass every `le` of one series"
            )
        if not self.bounds_s[0] > 0 or any(not low < high for low, high in pairwise(self.bounds_s)):
            raise FarmError(
                f"the bounds of a histogram are {self.bounds_s}, expected ascending seconds above 0; sort the buckets"
            )
        if self.counts[0] < 0 or any(low > high for low, high in pairwise(self.counts)):
            raise FarmError(
                f"the counts of a histogram are {self.counts}, expected cumulative ones, each at least the one before; add the "
                "buckets up"
            )
        if not any(count for bound, count in zip(self.bounds_s, self.counts, strict=True) if math.isfinite(bound)):
            raise FarmError(
                f"a histogram with bounds {self.bounds_s} and counts {self.counts} has no observation in a finite bucket; "
                "measure under load first"
            )
        if self.mean is not None:
            check_positive(mean=self.mean)

    def mean_s(self, rows: int) -> float:  # noqa: ARG002 - the protocol's
        """Return the measured mean, or that of the times that are drawn."""
        return self._drawn_mean_s if self.mean is None else self.mean

    @property
    def cv2(self) -> float:
        """That of the times that are drawn."""
        sizes = [high - low for low, high in pairwise((0, *self.counts))]
        squares = [(low * low + low * high + high * high) / 3 for low, high in self._edges_s]
        mean_square = sum(size * square for size, square in zip(sizes, squares, strict=True)) / self.counts[-1]
        return mean_square / self._drawn_mean_s**2 - 1

    def sampler(self, random: Random) -> Sampler:
        """Return a function that draws times by the inverse of the cumulative counts."""
        counts, edges, total, uniform = self.counts, self._edges_s, self.counts[-1], random.random
        scale = 1.0 if self.mean is None else self.mean / self._drawn_mean_s

        def draw(_rows: int) -> float:
            rank = uniform() * total
            bucket = bisect_left(counts, rank) if rank > 0 else next(i for i, count in enumerate(counts) if count)
            below = counts[bucket - 1] if bucket else 0
            low, high = edges[bucket]
            return scale * (low + (high - low) * (rank - below) / (counts[bucket] - below))

        return draw

    @property
    def _edges_s(self) -> list[tuple[float, float]]:
        """The lowest and the highest time of each bucket."""
        finite = [bound for bound in self.bounds_s if math.isfinite(bound)]
        return [
            *zip([0.0, *finite[:-1]], finite, strict=True),
            *[(finite[-1], finite[-1])] * (len(self.bounds_s) - len(finite)),
        ]

    @property
    def _drawn_mean_s(self) -> float:
        sizes = [high - low for low, high in pairwise((0, *self.counts))]
        return sum(size * (low + high) / 2 for size, (low, high) in zip(sizes, self._edges_s, strict=True)) / self.counts[-1]
