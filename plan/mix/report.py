# SPDX-License-Identifier: Apache-2.0
"""The plan of a farm of several models as text on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console

from hypersonic.plan.mix.make import MixedPlan
from hypersonic.plan.report import count_of, number, table_of

#: the parts that are shown
_SHOWN = 12

_Rows = list[tuple[str, ...]]


def show_mixed(plan: MixedPlan) -> None:
    """Print the plan on standard output."""
    console = Console(width=None if Console().is_terminal else 128)
    for line in mixed_lines(plan):
        console.print(line, highlight=False, markup=False)
    for title, head, rows in _tables(plan):
        console.print(table_of(title, head, rows, right=range(1, len(head))))


def mixed_lines(plan: MixedPlan) -> Iterator[str]:
    """Yield the answer in sentences."""
    mixed = plan.mixed
    serving = sum(pool.in_service for pool in plan.pools.values())
    yield (
        f"{count_of(len(mixed.workloads), 'workload')}, {count_of(len(mixed.models), 'model')}, {count_of(serving, 'card')} in "
        f"service in {count_of(len(mixed.pools), 'pool')}."
    )
    busiest = plan.figures.parts[0]
    yield f"The busiest part is {busiest.name}: {busiest.asked:.0%} of its capacity would be in use if no job waited."
    for name, load in zip(mixed.workloads, plan.figures.loads, strict=True):
        if not math.isfinite(load.event_s):
            yield f"{name}: unbounded. More events arrive than a part can serve, so its queue grows for ever."
    for name, pool in plan.pools.items():
        if pool.needed > pool.in_service:
            cards = f"{count_of(pool.needed, 'card')} instead of {pool.in_service}"
            yield f"{name}: {cards} would leave the headroom, by its {pool.part}."
    if plan.simulated is None:
        yield f"There is no simulation: {plan.why_not}."
    yield f"The target ({_target(plan)}) is {'reached' if plan.reached else 'NOT reached'}."


def _target(plan: MixedPlan) -> str:
    target = plan.mixed.target
    p99 = f", p99 of a call {target.p99_ms:g} ms" if target.p99_ms else ""
    return f"at most {target.added_percent:g} % added to an event of a job{p99}, {target.headroom:g} of the capacity"


def _tables(plan: MixedPlan) -> Iterator[tuple[str, tuple[str, ...], _Rows]]:
    yield (
        "workloads, computed and simulated",
        ("workload", "events/s", "simulated", "time per event, s", "simulated", "idle farm", "p50, ms", "p99, ms", "refused"),
        list(_workloads(plan)),
    )
    calls: _Rows = [
        (f"{name}: {model}", _ms(wait_s), _ms(plan.simulated.loads[index].model_s[model].mean_s) if plan.simulated else "")
        for index, (name, load) in enumerate(zip(plan.mixed.workloads, plan.figures.loads, strict=True))
        for model, wait_s in load.call_s.items()
    ]
    yield "mean time of a call", ("workload and model", "computed, ms", "simulated, ms"), calls
    pools: _Rows = [
        (
            name, str(pool.cards), str(pool.failed), str(pool.spares), str(found.in_service), f"{found.asked:.0%}", found.part,
            str(found.needed or "?"),
        )
        for (name, pool), found in zip(plan.mixed.pools.items(), plan.pools.values(), strict=True)
    ]  # fmt: skip
    yield "pools", ("pool", "cards", "failed", "spares", "in service", "asked", "busiest part", "cards needed"), pools
    parts: _Rows = [
        (part.name, f"{part.asked:.1%}", f"{part.busy:.1%}", _ms(part.wait_s)) for part in plan.figures.parts[:_SHOWN]
    ]
    yield "parts, the busiest first", ("part", "asked", "busy", "mean wait, ms"), parts


def _workloads(plan: MixedPlan) -> Iterator[tuple[str, ...]]:
    for index, (name, load) in enumerate(zip(plan.mixed.workloads, plan.figures.loads, strict=True)):
        rate, event, p50, p99 = "", "", "", ""
        if plan.simulated:
            found = plan.simulated.loads[index]
            events_per_s, seconds = plan.simulated_event(index)
            rate, event = number(events_per_s), f"{seconds:.4g}"
            p50, p99 = _ms(found.call_s.p50_s), _ms(found.call_s.p99_s)
        event_s = f"{load.event_s:.4g}" if math.isfinite(load.event_s) else "unbounded"
        refused = f"{load.refused:.1%}" if load.refused else "0"
        yield name, number(load.events_per_s), rate, event_s, event, f"{load.unqueued_s:.4g}", p50, p99, refused


def _ms(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "unbounded"
    return f"{1e3 * seconds:,.3g}" if seconds >= 1e-6 else "0"
