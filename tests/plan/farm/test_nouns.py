# SPDX-License-Identifier: Apache-2.0
"""Service times, and what is refused before a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.plan.farm import (
    Call,
    ClosedLoop,
    Constant,
    Failure,
    Farm,
    FarmError,
    Histogram,
    Linear,
    Link,
    OpenLoop,
    Server,
    ServiceTime,
    simulate,
)
from tests.plan.farm.farms import SMALL, Exponential

FARM = Farm((Server(Constant(0.01)),))


@pytest.mark.parametrize(
    "service",
    [
        Constant(0.2),
        Exponential(0.2),
        Linear(0.1, 0.01),
        Histogram((0.1, 0.2, 0.5), (5, 8, 10)),
        Histogram((0.1, 0.2, 0.5, math.inf), (5, 8, 10, 20), mean=0.4),
    ],
)
def test_times_have_the_stated_mean(service: ServiceTime) -> None:
    draw = service.sampler(Random(1))
    assert sum(draw(10) for _ in range(40_000)) / 40_000 == pytest.approx(service.mean_s(10), rel=0.02)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.booleans())
def test_times_of_a_histogram_fall_into_its_buckets_as_often_as_measured(sizes: list[int], open_ended: bool) -> None:
    if open_ended and not any(sizes[:-1]):
        return
    bounds = [2.0**n for n in range(len(sizes))]
    if open_ended and len(bounds) > 1:
        bounds[-1] = math.inf
    counts = tuple(sum(sizes[: n + 1]) for n in range(len(sizes)))
    draw = Histogram(tuple(bounds), counts).sampler(Random(2))
    times = [draw(1) for _ in range(4000)]
    for n, (bound, count) in enumerate(zip(bounds, counts, strict=True)):
        closed = math.isfinite(bound) and not (n == len(bounds) - 2 and open_ended)
        if closed:
            assert sum(time <= bound for time in times) / 4000 == pytest.approx(count / counts[-1], abs=0.04)
    assert max(times) <= max(bound for bound in bounds if math.isfinite(bound))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Link(1e9, background_bits_per_s=1e9), "background traffic of 1e.09 bits/s fills a link of 1e.09 bits/s"),
        (lambda: Link(0.0), "bits_per_s is 0.0, expected a number above 0"),
        (lambda: Link(delay_s=-1.0), "delay_s is -1.0, expected a finite number of 0 or more"),
        (lambda: Server(Constant(0.1), cards=0), "cards is 0, expected a whole number of 1 or more"),
        (lambda: Server(Constant(0.1), queue_limit=-1), "queue_limit is -1"),
        (lambda: Constant(math.nan), "seconds is nan"),
        (lambda: Farm(()), "servers is 0, expected a whole number of 1"),
        (lambda: Farm(FARM.servers, failures=(Failure(0, 1, 1.0),)), "card 1 of server 0 fails, but there are 1 servers"),
        (lambda: Failure(0, 0, 2.0, 1.0), "fails at 2 s returns at 1 s"),
        (lambda: Call(0, 1.0, 1.0), "rows is 0"),
        (lambda: ClosedLoop(0, 1.0, SMALL), "jobs is 0"),
        (lambda: OpenLoop(1.0, SMALL, deadline_s=0.0), "deadline_s is 0.0"),
        (lambda: OpenLoop(1.0, SMALL, start_rate_per_s=0.5), "ramp_s is 0; give the seconds"),
        (lambda: Histogram((), ()), "0 bounds and 0 counts"),
        (lambda: Histogram((1.0, 1.0), (1, 2)), "expected ascending seconds above 0"),
        (lambda: Histogram((1.0, 2.0), (3, 2)), "expected cumulative ones"),
        (lambda: Histogram((1.0, 2.0), (0, 0)), "no observation in a finite bucket"),
        (lambda: Histogram((1.0, math.inf), (0, 7)), "no observation in a finite bucket"),
        (lambda: simulate(FARM, OpenLoop(1.0, SMALL), seconds=2, warmup_s=2), "a simulation of 2 s with a warm-up of 2 s"),
        (lambda: simulate(FARM, OpenLoop(1.0, SMALL), seconds=math.inf), "expected finite seconds"),
    ],
)
def test_what_cannot_be_simulated_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(FarmError, match=message):
        make()
