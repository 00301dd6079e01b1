# SPDX-License-Identifier: Apache-2.0
"""A plan: the capacities, the number of cards that reach the target, latencies, and what would change it most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hypersonic.plan.changes import Change
from hypersonic.plan.inputs import RULES, Question
from hypersonic.plan.limits import Capacity, event_bytes
from hypersonic.plan.measured import service_data
from hypersonic.plan.points import SimulatedPoint, SitePart

#: the schema of a plan as JSON
SCHEMA = 1


@dataclass(frozen=True)
class Plan:
    """The answer to a question.

    Attributes:
        required_per_s: the events per second of the workload.
        needed: cards for it, 0 = no number is enough.
        capacity: of the site with the given cards, or with those that are needed.
        at_load: the simulation of the workload, None if it was not asked for.
        points: at RATIOS.
        reached: True if the capacity's cards reach the target.
    """

    question: Question
    required_per_s: float
    needed: int
    capacity: Capacity
    at_load: SimulatedPoint | None
    points: tuple[SimulatedPoint, ...]
    changes: tuple[Change, ...]
    reached: bool
    part: SitePart

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


def as_data(plan: Plan) -> dict[str, Any]:
    """Return the plan as a JSON object. `inputs`, `marks` and `measured` are what `hypersonic plan --file` reads again.

    marks: how each input is known. measured: the executions that a server's metrics reported.
    """
    question = plan.question
    inputs = {section: {name: getattr(getattr(question, section), name) for name in rules} for section, rules in RULES.items()}
    inputs["model"]["name"] = question.model.name
    inputs["site"] |= {"platform": question.site.platform, "server": question.site.server}
    if metrics := question.marks.get("model.metrics"):
        inputs["model"]["metrics"] = metrics.source
    names = [f"{section}.{name}" for section, values in inputs.items() for name in values]
    marks = {name: question.mark(name) for name in names}
    capacity = plan.capacity
    return {
        "schema": SCHEMA,
        "inputs": inputs,
        "marks": {name: {"basis": str(mark.basis), "source": mark.source} for name, mark in marks.items()},
        "measured": service_data(question.model.measured) if question.model.measured else None,
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
