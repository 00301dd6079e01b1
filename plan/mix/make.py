# SPDX-License-Identifier: Apache-2.0
"""Plans a farm of several models: its figures, the cards that each pool needs, and a simulation of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hypersonic.plan.farm import ClosedLoop, Load, Mix, TurnRule, simulate_mix
from hypersonic.plan.mix.analyse import Figures, PartFigures, analyse
from hypersonic.plan.mix.site import Mixed, farm_of, loads_of

#: the schema of a plan as JSON
SCHEMA = 1
#: how often the slowest job calls before and while it is measured; at least and at most so many calls
_CYCLES, _LEAST_CALLS, _MOST_CALLS = 3.0, 20_000, 2_000_000
#: the rounds of models that take turns that are simulated
_ROUNDS = 8


@dataclass(frozen=True)
class PoolFigures:
    """A pool.

    Attributes:
        in_service: cards.
        asked: the load of its busiest part if jobs did not wait.
        part: the name of that part.
        needed: cards for this load within the headroom, spares not included; 0 = not known, because its models take turns.
    """

    in_service: int
    asked: float
    part: str
    needed: int


@dataclass(frozen=True)
class MixedPlan:
    """The answer.

    Attributes:
        figures: computed.
        pools: by name.
        simulated: None if it was not asked for, if times are unbounded, or if the farm is too large.
        why_not: why it is None, in words.
        reached: the headroom is left everywhere, and events and calls are as fast as the target says.
    """

    mixed: Mixed
    figures: Figures
    pools: Mapping[str, PoolFigures]
    simulated: Mix | None
    why_not: str
    reached: bool
    loads: tuple[Load, ...]

    def simulated_event(self, index: int) -> tuple[float, float]:
        """Return the events per second of a workload and the time of one, from its simulated calls."""
        assert self.simulated is not None
        found, load = self.simulated.loads[index], self.loads[index]
        rate = (found.goodput_per_s + found.refused_per_s) / len(load.calls)
        if isinstance(load, ClosedLoop):
            return rate, load.jobs * load.in_flight / rate
        answered = 1 - found.refused_share
        return rate, answered * sum(found.model_s[call.model].mean_s for call in load.calls)


def plan_mixed(mixed: Mixed, *, rule: TurnRule | None = None, simulate: bool = True, seed: int = 1) -> MixedPlan:
    """Plan a farm. Raises PlanError, PlatformError.

    Args:
        rule: of models that take turns, for the simulation.
    """
    farm, names = farm_of(mixed, rule)
    loads = loads_of(mixed)
    figures = analyse(farm, loads, names)
    pools = {name: _pool_figures(mixed, name, figures.parts) for name in mixed.pools}
    simulated, why_not = None, "it was not asked for"
    if simulate:
        seconds, why_not = _seconds(mixed, loads, figures)
        if not why_not:
            simulated = simulate_mix(farm, loads, seconds=2 * seconds, warmup_s=seconds, seed=seed)
    return MixedPlan(mixed, figures, pools, simulated, why_not, _reached(mixed, figures, simulated), loads)


def _pool_figures(mixed: Mixed, name: str, parts: Sequence[PartFigures]) -> PoolFigures:
    pool = mixed.pools[name]
    own = [part for part in parts if part.kind >= 0 and part.name.startswith(f"{name}: ")]
    if not own:
        return PoolFigures(pool.in_service, 0.0, "", 0)
    busiest = max(own, key=lambda part: part.asked)
    needed = 0 if pool.turns else max(1, math.ceil(pool.in_service * busiest.asked / mixed.target.headroom - 1e-9))
    return PoolFigures(pool.in_service, busiest.asked, busiest.name.partition(": ")[2], needed)


def _seconds(mixed: Mixed, loads: Sequence[Load], figures: Figures) -> tuple[float, str]:
    """Return how long to warm up and how long to measure, or why that is too long."""
    if not all(math.isfinite(each.event_s) for each in figures.loads):
        return 0.0, "times are unbounded"
    rate = sum(each.events_per_s * len(load.calls) for each, load in zip(figures.loads, loads, strict=True))
    cycles_s = [each.event_s / len(load.calls) for each, load in zip(figures.loads, loads, strict=True)]
    seconds = max(_CYCLES * max(cycles_s), _LEAST_CALLS / rate)
    for pool in mixed.pools.values():
        if pool.turns:
            seconds = max(seconds, _ROUNDS * len(pool.models) * (pool.residency_s + 1))
    calls = 2 * seconds * rate + sum(load.jobs * load.in_flight for load in loads if isinstance(load, ClosedLoop))
    if calls > _MOST_CALLS:
        return 0.0, f"it would take {calls:,.0f} calls, more than {_MOST_CALLS:,}"
    return seconds, ""


def _reached(mixed: Mixed, figures: Figures, simulated: Mix | None) -> bool:
    target = mixed.target
    fits = all(part.asked <= target.headroom * (1 + 1e-9) for part in figures.parts)
    quick = all(
        each.event_s <= each.unqueued_s * (1 + target.added_percent / 100)
        for each, work in zip(figures.loads, mixed.workloads.values(), strict=True)
        if work.jobs
    )
    in_time = not target.p99_ms or (
        simulated is not None and all(1e3 * each.call_s.p99_s <= target.p99_ms for each in simulated.loads)
    )
    return fits and quick and in_time


def as_data(plan: MixedPlan, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan as a JSON object; a time without bound is null.

    Args:
        inputs: the sections of the file, which `hypersonic plan --file` reads again.
    """
    data = {
        "schema": SCHEMA,
        "inputs": dict(inputs),
        "target_reached": plan.reached,
        "workloads": {name: asdict(each) for name, each in zip(plan.mixed.workloads, plan.figures.loads, strict=True)},
        "pools": {name: asdict(each) for name, each in plan.pools.items()},
        "parts": [asdict(part) for part in plan.figures.parts],
        "simulated": None,
    }
    if plan.simulated:
        data["simulated"] = {
            name: {
                **dict(zip(("events_per_s", "event_s"), plan.simulated_event(index), strict=True)),
                "call_s": asdict(each.call_s),
            }
            for index, (name, each) in enumerate(zip(plan.mixed.workloads, plan.simulated.loads, strict=True))
        }
    return {name: _finite(value) for name, value in data.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
