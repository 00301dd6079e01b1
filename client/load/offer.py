# SPDX-License-Identifier: Apache-2.0
"""The load that is offered: closed loops with requests in flight, open loops with a rate, and the time to measure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.load.errors import LoadError

Arrivals = Literal["poisson", "constant"]


@dataclass(frozen=True)
class Closed:
    """A closed loop: each answer starts the next request.

    Attributes:
        concurrency: requests in flight, 1 or more.
    """

    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise LoadError(f"the concurrency is {self.concurrency}, expected 1 or more")

    def __str__(self) -> str:
        return f"concurrency {self.concurrency}"


@dataclass(frozen=True)
class Open:
    """An open loop: requests start by a schedule, whether or not earlier ones were answered.

    Attributes:
        rate: requests/s.
        arrivals: "poisson" for independent arrivals, whose spacing is exponential; "constant" for equal spacing.
    """

    rate: float
    arrivals: Arrivals = "poisson"

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise LoadError(f"the rate is {self.rate:g} requests/s, expected a number above 0")

    def __str__(self) -> str:
        return f"{self.rate:g} requests/s"


Offer = Closed | Open


@dataclass(frozen=True)
class Window:
    """The part of a load that is measured.

    Attributes:
        duration_s: its length.
        requests: the number of requests that ends it instead; 0: none does.
        warm_up_s: requests are sent for this long before it.
        seed: of the arrivals.
    """

    duration_s: float = 5.0
    requests: int = 0
    warm_up_s: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.requests < 0 or not self.warm_up_s >= 0 or not (self.requests or self.duration_s > 0):
            raise LoadError(
                f"the window is {self.requests} requests or {self.duration_s:g} s after {self.warm_up_s:g} s, expected "
                "requests or seconds above 0, after 0 s or more"
            )


def schedule(offer: Open, window: Window) -> tuple[NDArray[np.float64], float]:
    """Return the start times of all requests in ascending order, and the end of the window.

    Times are in seconds from the start of the warm-up. The window begins after `warm_up_s`. With window.requests, it holds that
    many requests and ends with the last of them.
    """
    rng = np.random.default_rng(window.seed)
    end_s = math.inf if window.requests else window.warm_up_s + window.duration_s
    expected = offer.rate * window.warm_up_s + (window.requests or offer.rate * window.duration_s)
    starts, measured = np.zeros(0), np.zeros(0)
    while len(measured) < window.requests if window.requests else not len(starts) or starts[-1] < end_s:
        starts = _extend(starts, offer, round(expected) + 16, rng)
        measured = starts[starts >= window.warm_up_s]
    if window.requests:
        end_s = float(measured[window.requests - 1])
        return starts[starts <= end_s], end_s
    return starts[starts < end_s], end_s


def _extend(starts: NDArray[np.float64], offer: Open, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the start times with `count` more. Constant arrivals are at 0, 1 / rate, 2 / rate, .."""
    if offer.arrivals == "constant":
        return np.arange(len(starts) + count) / offer.rate
    last = starts[-1] if len(starts) else 0.0
    return np.concatenate([starts, last + np.cumsum(rng.exponential(1 / offer.rate, count))])
