# SPDX-License-Identifier: Apache-2.0
"""Properties of every farm and load: no request is lost or answered twice, and the same seed gives the same result."""

from __future__ import annotations

from dataclasses import replace

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
    Linear,
    Link,
    OpenLoop,
    Retry,
    Server,
    Take,
    Wait,
    simulate,
)
from hypersonic.server.core.scheduling.rule import BatchRule
from tests.plan.farm.farms import FACILE, SMALL, Exponential, batching_of

#: up to 64 rows in an execution, which wait for others for at most 2 ms
RULE = BatchRule(64, merge=True, max_delay_ns=2_000_000)

calls = st.builds(Call, st.sampled_from([1, 16, 64, 150]), st.sampled_from([0.0, 1e4]), st.just(1e3))
servers = st.builds(
    Server,
    service=st.sampled_from([Constant(0.01), Exponential(0.01), Linear(0.002, 1e-4)]),
    cards=st.integers(1, 2),
    units_per_card=st.integers(1, 2),
    link=st.sampled_from([Link(), Link(1e8, 0.001)]),
    request_cpu=st.sampled_from([Constant(0.0), Exponential(0.002)]),
    batching=st.sampled_from([None, batching_of(RULE), batching_of(replace(RULE, merge=False))]),
    slots_per_unit=st.integers(1, 2),
    queue_limit=st.sampled_from([0, 3]),
    admission_limit=st.sampled_from([0, 8]),
)
farms = st.builds(
    Farm,
    servers=st.lists(servers, min_size=1, max_size=3).map(tuple),
    link=st.sampled_from([Link(), Link(5e8, 0.001, 1e8)]),
    failures=st.sampled_from([(), (Failure(0, 0, 0.2),), (Failure(0, 0, 0.1, 0.3), Failure(0, 0, 0.4, 0.6))]),
    detection_s=st.just(0.1),
)
jobs = st.builds(ClosedLoop, jobs=st.integers(1, 30), own_work_s=st.just(0.05), call=calls, calls_per_event=st.integers(1, 3))
loads = st.builds(
    OpenLoop,
    rate_per_s=st.sampled_from([50.0, 300.0, 1000.0]),
    call=calls,
    poisson=st.booleans(),
    deadline_s=st.sampled_from([None, 0.05, 0.2]),
    retry=st.sampled_from([None, Retry(), Retry(tokens=3.0, retries=2)]),
    clients=st.integers(1, 3),
    until_s=st.just(0.8),
)


@settings(max_examples=60)
@given(farms, loads, st.integers(0, 5))
def test_every_request_is_answered_once_or_refused_or_past_its_deadline(farm: Farm, load: OpenLoop, seed: int) -> None:
    """All requests are made in 0.8 s; after 60 s none is left, whatever has failed."""
    result = simulate(farm, load, seconds=60, seed=seed)
    counts = result.counts
    assert counts.requests == counts.answered + counts.refused + counts.expired
    assert counts.unfinished == 0
    assert counts.requests == pytest.approx(load.rate_per_s * 0.8, abs=6 * (load.rate_per_s * 0.8) ** 0.5)
    assert result.call_s.count == counts.answered
    assert counts.attempts >= counts.requests
    if load.retry is None:
        assert counts.attempts == counts.requests
    if load.deadline_s is not None:
        assert result.call_s.p99_s <= load.deadline_s
    else:
        assert not counts.expired
    assert sum(second.throughput_per_s for second in result.series) == pytest.approx(counts.answered)


@settings(max_examples=20)
@given(farms, jobs)
def test_a_job_has_one_call_under_way_at_most(farm: Farm, load: ClosedLoop) -> None:
    counts = simulate(farm, load, seconds=1).counts
    assert counts.requests == counts.answered + counts.refused + counts.unfinished
    assert counts.unfinished <= load.jobs


@settings(max_examples=10)
@given(farms, loads)
def test_the_same_seed_gives_the_same_result_and_another_one_does_not(farm: Farm, load: OpenLoop) -> None:
    first = simulate(farm, load, seconds=2, seed=3)
    assert simulate(farm, load, seconds=2, seed=3) == first
    if load.poisson:
        assert simulate(farm, load, seconds=2, seed=4) != first


def test_an_event_takes_its_own_work_and_all_its_calls() -> None:
    """One job on an idle farm: 3 calls, each 10 ms on the client's link, 5 ms there, 20 ms of service and 5 ms back."""
    call = Call(rows=10, request_bytes=125_000.0, answer_bytes=0.0)
    load = ClosedLoop(1, 0.3, call, own_work_cv=0, calls_per_event=3, client_bits_per_s=1e8)
    result = simulate(Farm((Server(Linear(0.01, 0.001), link=Link(delay_s=0.005)),)), load, seconds=20)
    assert result.event_s.p50_s == pytest.approx(0.3 + 3 * 0.04)
    assert result.call_s.p99_s == pytest.approx(0.04)
    assert result.utilisation.units == pytest.approx(3 * 0.02 / 0.42, rel=0.02)


def test_two_links_in_a_row_are_pipelined_and_the_slower_one_binds() -> None:
    call = Call(rows=1, request_bytes=1.25e6, answer_bytes=1.25e6)  # 10 Mb: 10 ms and 100 ms
    farm = Farm((Server(Constant(0.0), link=Link(1e8)),) * 2, link=Link(1e9))
    alone = simulate(farm, ClosedLoop(1, 0.5, call), seconds=20)
    assert alone.call_s.p50_s == pytest.approx(0.2)
    crowd = simulate(farm, ClosedLoop(60, 0.5, call), seconds=30, warmup_s=10)
    assert crowd.throughput_per_s == pytest.approx(20, rel=0.03)
    assert crowd.utilisation.server_link_requests == pytest.approx(1.0, abs=0.02)
    assert crowd.utilisation.link_requests == pytest.approx(0.2, abs=0.01)


def test_the_servers_own_rule_merges_small_requests_up_to_its_capacity() -> None:
    """Without merging an execution a request saturates at 100/s; eight requests of 8 rows fill an execution of 64."""
    call = Call(rows=8, request_bytes=0.0, answer_bytes=0.0)
    load = OpenLoop(900.0, call)
    alone = simulate(Farm((Server(Constant(0.01)),)), load, seconds=4, warmup_s=1)
    merged = simulate(Farm((Server(Constant(0.01), batching=batching_of(RULE)),)), load, seconds=4, warmup_s=1)
    assert alone.throughput_per_s == pytest.approx(100, rel=0.01)
    assert merged.requests_per_execution == pytest.approx(8, rel=0.02)
    assert merged.throughput_per_s == pytest.approx(800, rel=0.02)


def test_the_servers_own_rule_lets_a_lone_request_wait_for_its_delay() -> None:
    load = OpenLoop(5.0, Call(rows=8, request_bytes=0.0, answer_bytes=0.0), poisson=False)
    result = simulate(Farm((Server(Constant(0.01), batching=batching_of(RULE)),)), load, seconds=5)
    assert result.queue_s.p50_s == pytest.approx(0.002)
    assert result.call_s.p99_s == pytest.approx(0.012)


def test_a_request_above_the_capacity_is_executed_in_parts() -> None:
    """150 rows as 64 + 64 + 22 on one unit, of which the rule lets the last part wait for others."""
    call = Call(rows=150, request_bytes=0.0, answer_bytes=0.0)
    farm = Farm((Server(Linear(0.0, 0.001), batching=batching_of(RULE)),))
    result = simulate(farm, OpenLoop(1.0, call, poisson=False), seconds=10)
    assert result.call_s.p50_s == pytest.approx(0.150)
    assert result.requests_per_execution == pytest.approx(1 / 3, rel=0.05)


def test_a_failed_card_leaves_the_capacity_of_the_others_and_loses_nothing() -> None:
    """Ten servers, one of which is down from second 10 to 20; every lost request is sent again."""
    farm = Farm((Server(Constant(0.01)),) * 10, failures=(Failure(3, 0, 10.0, 20.0),), detection_s=0.5)
    result = simulate(farm, ClosedLoop(800, 0.5, FACILE, retry=Retry()), seconds=30)
    counts = result.counts
    assert (counts.refused, counts.expired) == (0, 0)
    assert counts.requests == counts.answered + counts.unfinished
    assert counts.attempts > counts.requests
    rates = [second.throughput_per_s for second in result.series]
    assert sum(rates[5:10]) / 5 == pytest.approx(1000, rel=0.02)
    assert sum(rates[12:20]) / 8 == pytest.approx(900, rel=0.02)
    assert sum(rates[25:30]) / 5 == pytest.approx(1000, rel=0.02)
    assert result.series[15].busy_share == pytest.approx(1.0, abs=0.01)


def test_a_failed_card_of_several_hands_its_requests_to_the_others() -> None:
    farm = Farm((Server(Constant(0.1), cards=4, units_per_card=2),), failures=(Failure(0, 1, 5.0),))
    result = simulate(farm, ClosedLoop(200, 0.5, SMALL), seconds=15, warmup_s=6)
    assert result.throughput_per_s == pytest.approx(60, rel=0.02)
    assert (result.counts.refused, result.attempts_per_request) == (0, 1.0)


def test_without_retries_a_server_without_cards_refuses_until_it_is_taken_out() -> None:
    farm = Farm((Server(Constant(0.001)),) * 2, failures=(Failure(0, 0, 1.0),), detection_s=0.5)
    result = simulate(farm, OpenLoop(200.0, SMALL), seconds=4)
    refused = [second.refused_per_s for second in result.series]
    assert refused[1] > 50  # calls that fail at once make the server look idle
    assert (refused[0], refused[2], refused[3]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Wait(1), "the batching rule waits until 1 ns"),
        (Take(5, 8), "for 1 requests; expected 1 of each or more"),
        (Take(1, 0), "for 1 requests; expected 1 of each or more"),
    ],
)
def test_a_rule_that_would_not_end_is_refused(choice: Take | Wait, message: str) -> None:
    farm = Farm((Server(Constant(0.01), batching=lambda _queue, _now_ns: choice),))
    with pytest.raises(FarmError, match=message):
        simulate(farm, OpenLoop(10.0, SMALL), seconds=2)
