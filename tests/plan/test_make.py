# SPDX-License-Identifier: Apache-2.0
"""Plans: the number of cards, latencies from the simulation, targets, changes, and numbers that contradict each other."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hypersonic.plan.answer import as_data
from hypersonic.plan.changes import changes
from hypersonic.plan.errors import PlanError
from hypersonic.plan.inputs import ModelCost, Question, Site, Target, Workload
from hypersonic.plan.limits import capacity_of, unqueued
from hypersonic.plan.make import check_question, make_plan
from hypersonic.plan.measured import constant_service
from hypersonic.plan.predict import Size, farm_of, part_of, simulate_load
from hypersonic.plan.read import Given, make_question
from hypersonic.plan.report import answer_lines
from tests.plan.questions import hlt


def test_the_cards_for_3300_hlt_jobs() -> None:
    plan = make_plan(hlt(), simulate=False)
    assert (plan.needed, plan.capacity.servers, plan.capacity.binding.part) == (3, 3, "network")
    assert plan.jobs_per_card == pytest.approx(1634, rel=0.01)
    assert plan.gbps[0] == pytest.approx(plan.required_per_s * 16_000 * 72 * 8e-9)
    assert plan.reached
    assert not make_plan(hlt(cards=2), simulate=False).reached
    assert make_plan(hlt(target=Target(headroom=1.0), cards=3), simulate=False).load == pytest.approx(plan.load)


def test_events_per_second_ask_for_the_same_cards_as_their_jobs() -> None:
    plan = make_plan(hlt(), simulate=False)
    rate = Workload(events_per_s=plan.required_per_s)
    assert make_plan(hlt(workload=rate), simulate=False).needed == plan.needed
    both = Workload(jobs=3300, events_per_s=round(plan.required_per_s))
    assert make_plan(hlt(workload=both), simulate=False).needed == plan.needed


def test_the_simulation_follows_the_law() -> None:
    question = hlt(cards=1)
    capacity = capacity_of(question, 1)
    idle = simulate_load(question, capacity, 0.5)
    assert idle.event_s == pytest.approx(capacity.unqueued.ideal_s, rel=0.01)
    assert idle.p50_s == pytest.approx(capacity.unqueued.call_s, rel=0.1)
    full, over = simulate_load(question, capacity, 1.0), simulate_load(question, capacity, 1.1)
    assert full.event_s <= 1.03 * capacity.unqueued.ideal_s
    assert over.event_s == pytest.approx(1.10 * capacity.unqueued.ideal_s, rel=0.02)
    assert over.events_per_s == pytest.approx(capacity.events_per_s, rel=0.01)
    assert idle.p99_s < full.p99_s < over.p99_s


def test_an_event_of_many_calls_takes_as_long_as_the_law_says() -> None:
    work = Workload(jobs=60, cpu_s=330, share=0.67, rows=235, calls=235)
    question = Question(work, ModelCost("emtrk", 9216, 16, ii=9680), Site(cards=1, request_cpu_ms=1), Target())
    capacity = capacity_of(question, 1)
    assert capacity.binding.part == "kernel"
    point = simulate_load(question, capacity, 1.5)
    assert point.event_s == pytest.approx(1.5 * capacity.unqueued.ideal_s, rel=0.02)
    assert point.events_per_s == pytest.approx(capacity.events_per_s, rel=0.02)


def test_times_far_above_saturation_are_those_of_the_law() -> None:
    question = hlt(cards=1)
    capacity = capacity_of(question, 1)
    point = simulate_load(question, capacity, 8.0)
    assert point.jobs == pytest.approx(8 * capacity.jobs)
    assert point.event_s == pytest.approx(8 * capacity.unqueued.ideal_s, rel=0.01)
    assert point.events_per_s == pytest.approx(capacity.events_per_s, rel=0.01)
    assert point.p50_s == pytest.approx(8 * capacity.unqueued.ideal_s - capacity.unqueued.own_s, rel=0.01)
    assert point.p50_s < point.p99_s


def test_two_and_a_half_jobs_are_not_three() -> None:
    """A card of long executions, which few jobs saturate: a part of a job is one that calls less often."""
    model = ModelCost("long", 100, 100, service_ms=2000.0, measured=constant_service(2.0, 1))
    question = Question(Workload(jobs=1, cpu_s=4.0, share=0.5, rows=1), model, Site(cards=1), Target())
    capacity = capacity_of(question, 1)
    assert capacity.jobs == pytest.approx(2, rel=0.01)
    for ratio in (0.2, 0.35):
        point = simulate_load(question, capacity, ratio)
        assert point.events_per_s == pytest.approx(ratio * capacity.events_per_s, rel=0.03)


def test_numbers_below_a_hundred_keep_their_digits() -> None:
    work = Workload(jobs=3, cpu_s=330, share=0.67, rows=235, calls=235)
    plan = make_plan(
        Question(work, ModelCost("emtrk", 9216, 16, ii=9680), Site(cards=1, request_cpu_ms=1), Target()), simulate=False
    )
    text = " ".join(answer_lines(plan))
    assert "3 jobs, 0.027 events/s" in text
    assert "62.4 jobs (62.4 a card), 0.561 events/s" in text


def test_a_fraction_of_a_clock_and_a_service_time_give_the_rate() -> None:
    fraction = make_question(Given({"model.name": "facile", "workload.jobs": 1, "model.ii": 2.5}))
    (kernel,) = (limit for limit in capacity_of(fraction, 1).limits if limit.part == "kernel")
    assert kernel.events_per_s == pytest.approx(300e6 / 2.5 / 16_000)
    given = make_question(Given({"model.name": "facile", "workload.jobs": 1, "model.service_ms": 4.0}))
    limits = {limit.part: limit for limit in capacity_of(given, 3).limits}
    assert limits["compute units"].events_per_s == pytest.approx(3 / 0.004)
    assert "kernel" not in limits
    assert simulate_load(given, capacity_of(given, 3), 0.2).p50_s == pytest.approx(unqueued(given).call_s, rel=0.02)


def test_a_large_site_is_simulated_in_part_with_its_share_of_the_switch() -> None:
    question = hlt(cards=100, cards_per_server=2, switch_gbps=4000.0, background_gbps=400.0)
    capacity = capacity_of(question, 100)
    part = part_of(question, capacity)
    assert (part.servers, part.all_servers, part.share) == (2, 50, 0.04)
    part = part_of(question, capacity, Size(4, 4, 100))
    assert (part.servers, part.all_servers, part.share) == (4, 50, 0.08)
    farm = farm_of(question, capacity, part, None, failing=0.25, at_s=1.0)
    assert [server.cards for server in farm.servers] == [2] * 4
    assert farm.link.free_bits_per_s == pytest.approx(0.08 * 3600e9)
    assert [(each.server, each.card) for each in farm.failures] == [(0, 0), (2, 0)]


@pytest.mark.slow
def test_a_target_that_the_headroom_does_not_reach_takes_more_cards() -> None:
    # one card at 99 % of its capacity: calls wait
    question = hlt(workload=Workload(events_per_s=2690), target=Target(headroom=1.0, p99_ms=4.0))
    assert make_plan(question, simulate=False).needed == 1
    plan = make_plan(question)
    assert plan.needed == 2
    assert plan.reached
    assert plan.at_load is not None
    assert plan.at_load.p99_s <= 0.004


def test_a_switch_that_is_too_slow_is_an_answer() -> None:
    plan = make_plan(hlt(switch_gbps=40.0), simulate=False)
    assert plan.needed == 0
    assert not plan.reached
    assert plan.capacity.binding.part == "site switch"


def test_changes_are_recomputed_and_ranked() -> None:
    found = changes(hlt(), 3, 5478.0)
    assert [each.gain for each in found] == sorted((each.gain for each in found), reverse=True)
    by_name = {each.name.partition(":")[0]: each for each in found}
    assert by_name["16-bit rows"].gain == pytest.approx(2.0)
    assert by_name["packed rows"].gain == pytest.approx(72 / 29)
    assert by_name["16-bit rows"].cards == 2
    assert by_name["server link of 100 Gb/s instead of 25"].binding == "memory bank"
    assert by_name["batch size"].gain == pytest.approx(1.0)


def test_a_plan_is_json() -> None:
    data = as_data(make_plan(hlt(), simulate=False))
    assert json.loads(json.dumps(data)) == data
    assert data["marks"]["site.kernel_mhz"]["basis"] == "assumed"
    assert set(data["marks"]) == {f"{section}.{name}" for section, values in data["inputs"].items() for name in values}


def with_numbers(question: Question, **values: float) -> Question:
    for name, value in values.items():
        section, _, field = name.partition("__")
        question = replace(question, **{section: replace(getattr(question, section), **{field: value})})
    return question


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"workload__share": 1.2}, "workload.share is 1.2, expected a number from 0 to 1; change it"),
        ({"workload__share": -0.1}, "workload.share is -0.1, expected a number from 0 to 1"),
        ({"workload__jobs": -5}, "workload.jobs is -5, expected a whole number from 0 to 1,000,000,000"),
        ({"workload__cpu_s": 0}, "workload.cpu_s is 0, expected a number of seconds above 0"),
        ({"workload__rows": 1.5}, "workload.rows is 1.5, expected a whole number from 1 to"),
        ({"workload__jobs": 2.5}, "workload.jobs is 2.5, expected a whole number from 0"),
        ({"workload__jobs": 0}, "workload.jobs and workload.events_per_s are both missing or 0"),
        ({"workload__events_per_s": 9000}, "which contradict each other: 3300 jobs of 0.6024 s an event make 5,478 events/s"),
        ({"workload__events_per_s": 100}, "which contradict each other"),
        ({"workload__share": 1}, "workload.share is 1, so that jobs do nothing but call"),
        ({"site__server_gbps": 0}, "a plan needs a network"),
        ({"site__server_gbps": -1}, "site.server_gbps is -1, expected a number of Gb/s above 0; change it"),
        ({"site__background_gbps": 3}, "there is no shared link that other traffic could use"),
        ({"site__background_gbps": 40, "site__switch_gbps": 40}, "expected less than site.switch_gbps, 40"),
        ({"target__headroom": 0}, "target.headroom is 0, expected a number above 0 and at most 1"),
        ({"target__headroom": 1.01}, "target.headroom is 1.01"),
        ({"target__p99_ms": 1}, "target.p99_ms is 1, expected 2.133 or more: a call takes that long when nothing queues"),
        ({"target__event_s": 0.5}, "target.event_s is 0.5, expected 0.6024 or more: an event takes that long"),
        ({"site__rtt_ms": float("nan")}, "site.rtt_ms is nan, expected a number of milliseconds, 0 or more"),
        ({"model__units": 0}, "model.units is 0, expected a whole number from 1 to 1,024"),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_is_named(values: dict[str, float], error: str) -> None:
    with pytest.raises(PlanError) as raised:
        check_question(with_numbers(hlt(), **values))
    assert error in str(raised.value)
