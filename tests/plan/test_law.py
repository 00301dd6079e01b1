# SPDX-License-Identifier: Apache-2.0
"""The throughput law: its limits, its scaling, and the figures that follow from it by hand."""

from __future__ import annotations

import math
import random

import pytest

from hypersonic.plan.law import LawError, saturation_jobs, throughput, time_per_event

#: 200 reproducible sets of numbers: jobs, ideal time in s, capacities per s
CASES = [
    (
        rng.uniform(1, 5000),
        10 ** rng.uniform(-3, 2),
        tuple(10 ** rng.uniform(-1, 5) for _ in range(rng.randint(1, 5))),
    )
    for rng in map(random.Random, range(200))
]


def test_below_saturation_jobs_do_not_wait() -> None:
    assert throughput(100, 0.6, [500.0]) == pytest.approx(100 / 0.6)
    assert time_per_event(100, 0.6, [500.0]) == pytest.approx(0.6)


def test_at_saturation_the_rate_is_the_lowest_capacity() -> None:
    assert saturation_jobs(0.6, [500.0, 2000.0]) == pytest.approx(300)
    assert throughput(300, 0.6, [500.0, 2000.0]) == pytest.approx(500)
    assert time_per_event(450, 0.6, [500.0]) == pytest.approx(0.9)


def test_no_jobs_do_nothing_and_nothing_shared_never_saturates() -> None:
    assert throughput(0, 0.6, [500.0]) == 0
    assert time_per_event(0, 0.6, [500.0]) == 0.6
    assert saturation_jobs(0.6, []) == math.inf
    assert throughput(1000, 0.5, []) == 2000


def test_the_rate_is_never_above_any_limit_and_equals_one_of_them() -> None:
    for jobs, ideal_s, capacities in CASES:
        rate, limits = throughput(jobs, ideal_s, capacities), (jobs / ideal_s, *capacities)
        assert rate in limits
        assert rate == min(limits)
        assert throughput(jobs, ideal_s, reversed(capacities)) == rate
        assert throughput(jobs + 1, ideal_s, capacities) >= rate
        assert time_per_event(jobs, ideal_s, capacities) >= ideal_s * (1 - 1e-12)


def test_saturation_scales_with_the_ideal_time_and_with_the_capacities() -> None:
    for _, ideal_s, capacities in CASES:
        n_star = saturation_jobs(ideal_s, capacities)
        assert saturation_jobs(3 * ideal_s, capacities) == pytest.approx(3 * n_star)
        assert saturation_jobs(ideal_s, [2 * each for each in capacities]) == pytest.approx(2 * n_star)
        assert throughput(n_star, ideal_s, capacities) == pytest.approx(min(capacities))
        assert time_per_event(1.5 * n_star, ideal_s, capacities) == pytest.approx(1.5 * ideal_s)


@pytest.mark.parametrize(
    ("jobs", "ideal_s", "capacities", "name"),
    [
        (-1, 1, [1], "jobs is -1"),
        (math.inf, 1, [1], "jobs is inf"),
        (math.nan, 1, [1], "jobs is nan"),
        (1, 0, [1], "ideal_s is 0"),
        (1, math.nan, [1], "ideal_s is nan"),
        (1, 1, [1, 0], "a capacity is 0"),
        (1, 1, [-2], "a capacity is -2"),
    ],
)
def test_a_number_without_meaning_is_named(jobs: float, ideal_s: float, capacities: list[float], name: str) -> None:
    with pytest.raises(LawError, match=name):
        throughput(jobs, ideal_s, capacities)
