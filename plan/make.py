# SPDX-License-Identifier: Apache-2.0
"""Makes a plan: checks the question, finds the number of cards, and simulates the loads."""

from __future__ import annotations

from dataclasses import replace

from hypersonic.plan.answer import Plan
from hypersonic.plan.changes import changes
from hypersonic.plan.errors import PlanError
from hypersonic.plan.farm import Batching
from hypersonic.plan.inputs import Question, check_agreement, check_ranges
from hypersonic.plan.limits import Capacity, capacity_of, cards_for, required_rate, unqueued
from hypersonic.plan.points import RATIOS, SimulatedPoint
from hypersonic.plan.predict import part_of, simulate_load

#: the most that jobs and events/s may differ if both are given, and how often cards are added for the target
_CONTRADICTION, _ATTEMPTS = 0.05, 6


def make_plan(question: Question, *, batching: Batching | None = None, simulate: bool = True, seed: int = 1) -> Plan:
    """Answer a question.

    Args:
        batching: the servers' rule for the simulation.
        simulate: False leaves the latencies out.

    Raises:
        PlanError: For inputs that are out of range or contradict each other.
        PlatformError: For an unknown platform.
    """
    check_question(question)
    required = required_rate(question)
    needed = cards_for(question, required)
    cards = question.site.cards or needed or _most_useful(question)
    capacity = capacity_of(question, cards)
    at_load = _at_load(question, capacity, required, batching, seed) if simulate else None
    if at_load and not question.site.cards and needed:
        for _ in range(_ATTEMPTS):
            if _reaches(question, capacity, at_load):
                break
            cards += max(1, cards // 10)
            capacity = capacity_of(question, cards)
            at_load = _at_load(question, capacity, required, batching, seed)
        needed = cards
    fits = required <= capacity.events_per_s * question.target.headroom * (1 + 1e-9)
    reached = fits and (_reaches(question, capacity, at_load) if at_load else not simulate)
    points = (
        tuple(simulate_load(question, capacity, ratio, batching=batching, seed=seed) for ratio in RATIOS) if simulate else ()
    )
    found = changes(question, cards, required)
    return Plan(question, required, needed, capacity, at_load, points, found, reached, part_of(question, capacity))


def check_question(question: Question) -> None:
    """Raise PlanError for an input that is out of range or contradicts another, PlatformError for an unknown platform."""
    check_ranges(question)
    check_agreement(question)
    work, target, idle = question.workload, question.target, unqueued(question)
    if work.jobs and work.events_per_s and abs(work.events_per_s * idle.ideal_s / work.jobs - 1) > _CONTRADICTION:
        raise PlanError(
            f"workload.jobs is {work.jobs:g} and workload.events_per_s is {work.events_per_s:g}, which contradict each other: "
            f"{work.jobs:g} jobs of {idle.ideal_s:.4g} s an event make {work.jobs / idle.ideal_s:,.4g} events/s; "
            "give one of them"
        )
    if target.event_s and target.event_s < idle.ideal_s:
        raise PlanError(
            f"target.event_s is {target.event_s:g}, expected {idle.ideal_s:.4g} or more: an event takes that long when nothing "
            "queues; no number of cards makes it faster"
        )
    if target.p99_ms and target.p99_ms < 1e3 * idle.call_s:
        raise PlanError(
            f"target.p99_ms is {target.p99_ms:g}, expected {1e3 * idle.call_s:.4g} or more: a call takes that long when "
            f"nothing queues (network {1e3 * idle.network_s:.3g} ms, server {1e3 * idle.server_s:.3g} ms, card "
            f"{1e3 * idle.card_s:.3g} ms); send fewer rows a call, or give a faster link"
        )


def _most_useful(question: Question) -> int:
    """Return the number of cards that reaches the site's own limit, for a load that no number of cards can serve."""
    limits = capacity_of(question, 1).limits
    site = min(limit.events_per_s for limit in limits if limit.scope == "site")
    return max(1, cards_for(replace(question, site=replace(question.site, switch_gbps=0.0, background_gbps=0.0)), site))


def _at_load(question: Question, capacity: Capacity, required: float, batching: Batching | None, seed: int) -> SimulatedPoint:
    return simulate_load(question, capacity, required / capacity.events_per_s, batching=batching, seed=seed)


def _reaches(question: Question, capacity: Capacity, point: SimulatedPoint) -> bool:
    target = question.target
    most_s = target.event_s or capacity.unqueued.ideal_s * (1 + target.added_percent / 100)
    return point.event_s <= most_s and (not target.p99_ms or point.p99_s <= target.p99_ms / 1e3)
