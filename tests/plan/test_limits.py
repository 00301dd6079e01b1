# SPDX-License-Identifier: Apache-2.0
"""Capacities: each limit by hand, the binding one, the number of cards, and how they scale."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from hypersonic.firmware.errors import PlatformError
from hypersonic.firmware.estimate.rates import CARD, card_rate
from hypersonic.firmware.platform import find_platform
from hypersonic.plan.inputs import Basis, ModelCost, Question, Service, Site, Target, Workload
from hypersonic.plan.limits import capacity_of, cards_for, required_rate, units_at_work, unqueued
from hypersonic.plan.models import ZOO
from hypersonic.plan.server_cost import SERVERS
from tests.plan.questions import FACILE, hlt


def random_question(seed: int) -> Question:
    rng = random.Random(seed)
    work = Workload(
        jobs=rng.randint(1, 50_000), cpu_s=10 ** rng.uniform(-1, 2.5), share=rng.uniform(0, 0.9), rows=rng.randint(1, 20_000),
        calls=rng.randint(1, 300),
    )  # fmt: skip
    model = ModelCost("any", rng.randint(1, 4000), rng.randint(1, 400), ii=rng.randint(1, 500), units=rng.randint(1, 4))
    switch = rng.choice([0.0, 400.0])
    site = Site(
        platform=rng.choice(["u250", "u55c"]), cards_per_server=rng.randint(1, 8), server_gbps=rng.choice([10.0, 25.0, 100.0]),
        switch_gbps=switch, background_gbps=switch / 10, rtt_ms=rng.uniform(0, 20), server=rng.choice(SERVERS),
        request_cpu_ms=rng.choice([0.0, rng.uniform(0.01, 2)]),
    )  # fmt: skip
    return Question(work, model, site, Target())


QUESTIONS = [random_question(seed) for seed in range(150)]


def test_the_limits_of_facile_on_a_u250_are_those_that_infer_predicts() -> None:
    limits = {limit.part: limit.events_per_s for limit in capacity_of(hlt(), 1).limits}
    predicted = card_rate(find_platform("u250"), 18_000, (16_000 * 72, 16_000 * 4))
    assert {part: limits[part] for part in limits if part != "server CPU"} == {
        limit.part: pytest.approx(limit.events_per_s) for limit in predicted.limits if limit.part != CARD
    }
    assert limits["server CPU"] == 16 / 1e-3
    assert round(limits["network"]) == 2713  # 25 Gb/s over 1.152 MB


def test_a_card_whose_parts_together_are_slower_than_any_alone_has_the_simulated_rate() -> None:
    question = hlt(replace(FACILE, units=2))
    predicted = card_rate(find_platform("u250"), 18_000, (16_000 * 72, 16_000 * 4), units=2)
    limits = {limit.part: limit for limit in capacity_of(question, 3).limits}
    assert limits["PCIe to the card"].events_per_s == pytest.approx(3 * predicted.of(CARD))
    assert predicted.of(CARD) < predicted.of("PCIe to the card")
    assert str(limits["PCIe to the card"].mark) == "simulated (bench card)"
    assert CARD not in limits


def test_an_hlt_job_has_the_published_cycle() -> None:
    idle = unqueued(hlt())
    assert idle.own_s == pytest.approx(0.600, abs=0.001)
    transfer_s = 16_000 * (72 + 4) * 8 / 25e9
    assert idle.network_s == pytest.approx(0.0005 + transfer_s)
    assert idle.card_s == pytest.approx(16_000 * 72 / 6.5e9 + 18_000 / 300e6 + 16_000 * 4 / 9.7e9)
    assert capacity_of(hlt(), 1).jobs == pytest.approx(1627, rel=0.01)  # 2712/s of 0.600 s
    packed = hlt(replace(FACILE, input_bytes=36))
    assert capacity_of(packed, 1).jobs == pytest.approx(3255, rel=0.01)


@pytest.mark.parametrize("units", [1, 2, 4, 100])
def test_a_call_alone_on_a_card_takes_as_long_whatever_the_number_of_units(units: int) -> None:
    alone, many = (unqueued(hlt(replace(FACILE, units=number))) for number in (1, units))
    assert many.call_s == alone.call_s
    assert many.service_s <= many.card_s
    question = hlt(replace(FACILE, units=units))
    slowest = min(limit.events_per_s for limit in capacity_of(question, 1).limits if limit.scope == "card")
    at_work, row_s = units_at_work(question)
    assert row_s / at_work == pytest.approx(1 / (slowest * 16_000))


def test_units_of_a_slow_core_all_work() -> None:
    assert units_at_work(hlt(replace(ZOO["emtrk"].cost, units=3)))[0] == 3


def test_the_binding_limit_is_the_lowest() -> None:
    for question in QUESTIONS:
        capacity = capacity_of(question, 3)
        assert capacity.binding.events_per_s == min(limit.events_per_s for limit in capacity.limits) == capacity.events_per_s
        assert capacity.rate(capacity.jobs) == pytest.approx(capacity.events_per_s)


def test_more_cards_never_lower_the_capacity() -> None:
    for question in QUESTIONS:
        rates = [capacity_of(question, cards).events_per_s for cards in (1, 2, 3, 5, 8, 20)]
        assert rates == sorted(rates)


def test_saturation_scales_with_the_ideal_time() -> None:
    for question in QUESTIONS:
        slower = replace(question, workload=replace(question.workload, cpu_s=2 * question.workload.cpu_s))
        before, after = capacity_of(question, 4), capacity_of(slower, 4)
        assert after.events_per_s == pytest.approx(before.events_per_s)
        assert after.jobs / before.jobs == pytest.approx(after.unqueued.ideal_s / before.unqueued.ideal_s)


def test_the_needed_cards_are_enough_and_one_less_is_not() -> None:
    solved = 0
    for question in QUESTIONS:
        rate = required_rate(question)
        cards = cards_for(question, rate)
        if not cards:
            assert "site switch" in {limit.part for limit in capacity_of(question, 1).limits}
            continue
        solved += 1
        usable = question.target.headroom * (1 + 1e-6)
        assert capacity_of(question, cards).events_per_s * usable >= rate
        if cards > 1:
            assert capacity_of(question, cards - 1).events_per_s * question.target.headroom < rate
    assert solved > 75


def test_a_switch_that_is_too_slow_is_not_helped_by_cards() -> None:
    question = hlt(switch_gbps=40.0, background_gbps=10.0)
    assert cards_for(question, required_rate(question)) == 0
    capacity = capacity_of(question, 100)
    assert capacity.binding.part == "site switch"
    assert capacity.events_per_s == pytest.approx(30e9 / 8 / (16_000 * 72))


def test_cards_of_one_server_share_its_link() -> None:
    alone, together = capacity_of(hlt(), 4), capacity_of(hlt(cards_per_server=4), 4)
    assert (alone.servers, together.servers) == (4, 1)
    assert alone.events_per_s == pytest.approx(4 * together.events_per_s)


def test_clocks_are_assumed_and_published_rates_have_their_source() -> None:
    marks = {limit.part: limit.mark for limit in capacity_of(hlt(kernel_mhz=250.0), 1).limits}
    assert marks["kernel"].basis == Basis.ASSUMED
    assert str(marks["memory bank"]) == "modelled (AMD's axi_burst_performance)"
    assert str(marks["PCIe to the card"]) == "published (xbutil validate)"
    assert {limit.mark.basis for limit in capacity_of(hlt(platform="u55c"), 1).limits if "PCIe" in limit.part} == {
        Basis.ASSUMED
    }


def test_measured_executions_replace_clocks_pcie_and_bank() -> None:
    measured = Service((0.01, math.inf), (100, 100), mean_s=0.002, rows=8000, requests=2.0)
    question = hlt(replace(FACILE, measured=measured, units=2))
    limits = {limit.part: limit.events_per_s for limit in capacity_of(question, 3).limits}
    assert set(limits) == {"compute units", "network", "server CPU"}
    assert limits["compute units"] == pytest.approx(3 * 2 / 0.004)  # 16,000 rows take twice as long as 8000


def test_an_unknown_platform_is_named_with_the_known_ones() -> None:
    with pytest.raises(PlatformError, match=r"platform is 'u251', expected one of .*u250, "):
        capacity_of(hlt(platform="u251"), 1)
