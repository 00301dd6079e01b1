# SPDX-License-Identifier: Apache-2.0
"""A plan: the capacities, the number of cards that reach the target, latencies, and what would change it most."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from hypersonic.planning.changes import Change, changes
from hypersonic.planning.errors import PlanError
from hypersonic.planning.inputs import RULES, Question, check_agreement, check_ranges
from hypersonic.planning.limits import Capacity, capacity_of, cards_for, event_bytes, required_rate, unqueued
from hypersonic.planning.predict import RATIOS, Part, Point, part_of, simulate_load
from hypersonic.sim.farm import Batching

#: the schema of a plan as JSON
SCHEMA = 1
#: the most that jobs and events/s may differ if both are given, and how often cards are added for the target
_CONTRADICTION, _ATTEMPTS = 0.05, 6


@dataclass(frozen=True)
class Plan:
    """The answer to a question.

    required_per_s: the events per second of the workload. needed: cards for it, 0 = no number of cards. capacity: of the site
    with the given cards, or with those that are needed. at_load: the simulation of the workload, None if it was not asked for
    or the load is above 1.5 of the saturation. points: at RATIOS. reached: True if the capacity's cards reach the target.
    """

    question: Question
    required_per_s: float
    needed: int
    capacity: Capacity
    at_load: Point | None
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    reached: bool
    part: Part

    @property
    def load(self) -> float:
        """The required rate over the capacity."""
        return self.required_per_s / self.capacity.events_per_s

    @property
    def gbps(self) -> tuple[float, float]:
        """Gb/s of the workload's requests and of its answers."""
        requests, answers = event_bytes(self.question)
        return self.required_per_s * requests * 8e-9, self.required_per_s * answers * 8e-9

    @property
    def jobs(self) -> float:
        """The jobs of the workload."""
        return self.question.workload.jobs or self.required_per_s * self.capacity.unqueued.ideal_s

    @property
    def jobs_per_card(self) -> float:
        """N* per card, without the headroom."""
        return self.capacity.jobs / self.capacity.cards


def make_plan(question: Question, *, batching: Batching | None = None, simulate: bool = True, seed: int = 1) -> Plan:
    """Answer a question. batching: the servers' rule for the simulation. simulate: False leaves the latencies out.

    Raises PlanError for inputs that are out of range or contradict each other, PlatformError for an unknown platform.
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
            assert at_load is not None  # more cards never load the site more
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
    """Return the cards with which the site's own limit is reached, for a load that no number of cards carries."""
    limits = capacity_of(question, 1).limits
    site = min(limit.events_per_s for limit in limits if limit.scope == "site")
    return max(1, cards_for(replace(question, site=replace(question.site, switch_gbps=0.0, background_gbps=0.0)), site))


def _at_load(question: Question, capacity: Capacity, required: float, batching: Batching | None, seed: int) -> Point | None:
    ratio = required / capacity.events_per_s
    return simulate_load(question, capacity, ratio, batching=batching, seed=seed) if ratio <= max(RATIOS) else None


def _reaches(question: Question, capacity: Capacity, point: Point) -> bool:
    target = question.target
    most_s = target.event_s or capacity.unqueued.ideal_s * (1 + target.added_percent / 100)
    return point.event_s <= most_s and (not target.p99_ms or point.p99_s <= target.p99_ms / 1e3)


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan as a JSON object. `inputs` is what `hypersonic plan --file` reads; `marks` says how each is known."""
    question = plan.question
    inputs = {section: {name: getattr(getattr(question, section), name) for name in rules} for section, rules in RULES.items()}
    inputs["model"]["name"] = question.model.name
    inputs["site"]["platform"] = question.site.platform
    if metrics := question.marks.get("model.metrics"):
        inputs["model"]["metrics"] = metrics.source
    names = [f"{section}.{name}" for section, values in inputs.items() for name in values]
    marks = {name: question.mark(name) for name in names}
    capacity = plan.capacity
    return {
        "schema": SCHEMA,
        "inputs": inputs,
        "marks": {name: {"basis": str(mark.basis), "source": mark.source} for name, mark in marks.items()},
        "required_events_per_s": plan.required_per_s,
        "jobs": plan.jobs,
        "cards_needed": plan.needed,
        "cards": capacity.cards,
        "servers": capacity.servers,
        "target_reached": plan.reached,
        "load": plan.load,
        "gbps": {"requests": plan.gbps[0], "answers": plan.gbps[1]},
        "saturation_jobs": capacity.jobs,
        "jobs_per_card": plan.jobs_per_card,
        "capacity_events_per_s": capacity.events_per_s,
        "limited_by": capacity.binding.part,
        "limits": [
            {
                "part": limit.part, "events_per_s": limit.events_per_s, "what": limit.what, "basis": str(limit.mark.basis),
                "source": limit.mark.source,
            }
            for limit in capacity.limits
        ],
        "unqueued": {**asdict(capacity.unqueued), "call_s": capacity.unqueued.call_s, "ideal_s": capacity.unqueued.ideal_s},
        "at_load": asdict(plan.at_load) if plan.at_load else None,
        "points": [asdict(point) for point in plan.points],
        "changes": [asdict(change) for change in plan.changes],
    }  # fmt: skip
