# SPDX-License-Identifier: Apache-2.0
"""The law of a closed loop, and its least-squares fit.

With N requests in flight and l answers per second, a request's turn takes T = N / l (Little's law). A service with the unloaded
latency T0 and the saturation rate l_max gives

::

    T(N) = max(T0, N / l_max)

which is constant up to N* = T0 * l_max and proportional to N from there. This is the law of the SONIC papers, such as
M. Wang et al., "GPU-Accelerated Machine Learning Inference as a Service for Computing in Neutrino Experiments",
Front. Big Data 3 (2021) 604083, arXiv:2009.04509, for clients that do nothing but wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.load.errors import LoadError
from hypersonic.client.load.offer import Closed
from hypersonic.client.load.point import Point

#: a larger residual is not noise: the points do not follow the law
_NOISE = 0.2

#: how much longer the longest turn has to be than the unloaded latency; below that, noise looks like saturation
_RISE = 1.1


@dataclass(frozen=True)
class Saturation:
    """The fitted law.

    Attributes:
        unloaded_s: T0.
        rate: l_max in requests/s; infinite if no saturation was seen.
        residual: root of the mean square of ln(T / T(N)), which is about the relative deviation of the points from the law.
        concurrencies: how many different ones the points have.
    """

    unloaded_s: float
    rate: float
    residual: float
    concurrencies: int

    @property
    def n_star(self) -> float:
        """The concurrency at which the service saturates, N* = T0 * l_max; infinite if no saturation was seen."""
        return self.unloaded_s * self.rate

    @property
    def doubt(self) -> str:
        """Why the figures are not to be used, in words; "" if nothing speaks against them."""
        if self.concurrencies < 3:
            return (
                "two points fit the law whatever the server does, so these figures are not confirmed: measure three or more "
                "concurrencies, some below and some above N*"
            )
        if self.residual > _NOISE:
            return (
                f"the points deviate by {100 * self.residual:.2g} %, so the server does not follow the law: do not use T0, "
                "l_max and N*, but the table; if another load disturbed the measurement, measure again, and longer"
            )
        return ""

    def turn_s(self, concurrency: float) -> float:
        """Return T(N) in seconds."""
        return max(self.unloaded_s, concurrency / self.rate)


def fit_saturation(points: Sequence[Point]) -> Saturation | None:
    """Fit the law to the closed loops among the points; None for fewer than two different concurrencies with answers."""
    closed = [(p.offer.concurrency, p.period_s) for p in points if isinstance(p.offer, Closed) and p.answered]
    if len({concurrency for concurrency, _ in closed}) < 2:
        return None
    return fit_law(*zip(*sorted(closed), strict=True))


def fit_law(concurrencies: Sequence[float], turns_s: Sequence[float]) -> Saturation:
    """Return the law with the least sum of (ln T - ln max(T0, N / l_max))**2: every point has the same relative weight.

    The law divides the points into those on the constant part, those on the rising part, and at most one at N*. For each
    division the best T0 and l_max are means, so all divisions are tried.

    Args:
        concurrencies: N, ascending.
        turns_s: T of each.

    Raises:
        LoadError: For no points, and for numbers that are not above 0.
    """
    n, t = np.asarray(concurrencies, float), np.asarray(turns_s, float)
    if not len(n) or not (np.isfinite(n) & np.isfinite(t) & (n > 0) & (t > 0)).all():
        raise LoadError("the fit takes one or more points, each with a concurrency and a time above 0")
    x, y = np.log(n), np.log(t)
    constant = float(y.mean())
    flat = constant, -math.inf
    best = min([flat, *_divisions(x, y)], key=lambda law: _deviation(x, y, *law))
    if t[-1] <= _RISE * math.exp(best[0]):
        best = flat
    unloaded, rising = best
    residual = math.sqrt(_deviation(x, y, *best) / len(n))
    return Saturation(math.exp(unloaded), math.exp(-rising), residual, len(set(concurrencies)))


def _divisions(x: NDArray[np.float64], y: NDArray[np.float64]) -> Iterator[tuple[float, float]]:
    """Yield (ln T0, -ln l_max) of each division of the points."""
    rising = y - x
    for first in range(1, len(x)):
        yield float(y[:first].mean()), float(rising[first:].mean())
    for at in range(len(x)):  # this point is at N*: T0 = N / l_max there
        shift = float(np.concatenate([y[: at + 1] - x[at], rising[at + 1 :]]).mean())
        yield x[at] + shift, shift


def _deviation(x: NDArray[np.float64], y: NDArray[np.float64], unloaded: float, rising: float) -> float:
    return float(((y - np.maximum(unloaded, x + rising)) ** 2).sum())
