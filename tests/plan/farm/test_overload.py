# SPDX-License-Identifier: Apache-2.0
"""100 cards at 1.5 times saturation: goodput, retries, and the metric on which a site scales out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hypersonic.plan.farm import Constant, Farm, Link, OpenLoop, Result, Retry, Server, simulate
from tests.plan.farm.farms import FACILE

pytestmark = [pytest.mark.slow, pytest.mark.whole("plan")]  # 10 s of processor time

#: of one card. A farm with cards that are k times as fast behaves the same in 1/k of the time.
SERVICE_S = 0.1
CAPACITY_PER_S = 100 / SERVICE_S

#: ten executions; the pauses before retries and the transfers may take a tenth of it
DEADLINE_S = 1.0

#: the last request of a full queue waits for QUEUE_LIMIT + 1 executions and then for its own, which is within the deadline
QUEUE_LIMIT = 7

#: the share of busy time above which a site adds a server
SCALE_OUT_AT = 0.8

LOAD = OpenLoop(1.5 * CAPACITY_PER_S, FACILE, deadline_s=DEADLINE_S, retry=Retry(), clients=100)


def farm_with(queue_limit: int, bits_per_s: float = 100e9, admission_limit: int = 0) -> Farm:
    server = Server(Constant(SERVICE_S), link=Link(25e9, 0.0005), queue_limit=queue_limit, admission_limit=admission_limit)
    return Farm((server,) * 100, link=Link(bits_per_s))


@cache
def overloaded() -> Result:
    return simulate(farm_with(QUEUE_LIMIT), LOAD, seconds=60, warmup_s=5)


def test_goodput_is_95_percent_of_capacity_at_one_and_a_half_times_saturation_for_a_minute() -> None:
    result = overloaded()
    assert 0.95 * CAPACITY_PER_S <= result.goodput_per_s <= 1.01 * CAPACITY_PER_S
    assert all(second.throughput_per_s >= 0.93 * CAPACITY_PER_S for second in result.series[5:])


def test_retries_do_not_multiply_the_load() -> None:
    counts, retry = overloaded().counts, Retry()
    assert counts.attempts <= counts.requests + LOAD.clients * retry.tokens + retry.per_success * counts.answered
    endless = simulate(farm_with(QUEUE_LIMIT), replace(LOAD, retry=Retry(tokens=1e9)), seconds=8, warmup_s=2)
    budget = [second.attempts_per_s / second.requests_per_s for second in overloaded().series[-20:]]
    assert max(budget) < 1.5
    assert endless.attempts_per_request > 1.2 * max(budget)


def test_without_a_queue_limit_units_work_on_answers_that_are_too_late() -> None:
    """The processors are as busy as before; what they compute is thrown away."""
    result = simulate(farm_with(0), LOAD, seconds=10, warmup_s=3)
    assert result.utilisation.units > 0.99
    assert result.goodput_per_s < 0.5 * CAPACITY_PER_S
    assert result.counts.wasted > 0.5 * result.throughput_per_s


def test_a_queue_limit_above_the_bound_of_the_deadline_loses_goodput() -> None:
    above = simulate(farm_with(12), LOAD, seconds=10, warmup_s=3)
    assert above.goodput_per_s < 0.9 * CAPACITY_PER_S


def test_a_link_that_binds_needs_refusals_before_the_request_is_sent() -> None:
    """The queue limit is behind the link, so it does not help there."""
    bits_per_s = 0.9 * CAPACITY_PER_S * 8 * FACILE.request_bytes
    late = simulate(farm_with(QUEUE_LIMIT, bits_per_s), LOAD, seconds=10, warmup_s=3)
    early = simulate(farm_with(QUEUE_LIMIT, bits_per_s, admission_limit=6), LOAD, seconds=10, warmup_s=3)
    assert late.goodput_per_s < 0.5 * CAPACITY_PER_S
    assert early.goodput_per_s > 0.9 * 0.95 * CAPACITY_PER_S


def test_the_busy_share_passes_its_threshold_before_p99_has_doubled() -> None:
    """From half the capacity to 1.2 times the capacity in a minute."""
    load = replace(LOAD, rate_per_s=1.2 * CAPACITY_PER_S, start_rate_per_s=0.5 * CAPACITY_PER_S, ramp_s=60)
    series = simulate(farm_with(QUEUE_LIMIT), load, seconds=60).series[1:]
    before_s = sum(second.p99_s for second in series[:5]) / 5
    scaled = next(second.start_s for second in series if second.busy_share > SCALE_OUT_AT)
    doubled = next(second.start_s for second in series if second.p99_s > 2 * before_s)
    assert scaled < doubled
    assert [second.busy_share for second in series] == pytest.approx(
        [min(1.0, 0.5 + 0.7 * (second.start_s + 0.5) / 60) for second in series], abs=0.08
    )


def test_queueing_time_per_execution_is_what_supersonic_scales_on() -> None:
    """With 7 places, which are empty for a moment after each execution."""
    last = overloaded().series[-1]
    assert 6 * SERVICE_S < last.queue_ms_per_execution / 1000 < 7 * SERVICE_S
