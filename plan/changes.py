# SPDX-License-Identifier: Apache-2.0
"""The changes of a site that would raise its capacity, each recomputed and ranked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypersonic.plan.inputs import Question
from hypersonic.plan.limits import capacity_of, cards_for
from hypersonic.plan.models import with_bytes
from hypersonic.plan.server_cost import PYTHON, TRITON

#: the usual speeds of Ethernet, in Gb/s
_SPEEDS = (1.0, 10.0, 25.0, 100.0, 200.0, 400.0, 800.0)


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        name: in words.
        jobs, events_per_s: N* and the capacity with the same cards.
        gain: that capacity over the present one.
        cards: needed for the same load, 0 = no number is enough.
        binding: the part that then limits.
    """

    name: str
    jobs: float
    events_per_s: float
    gain: float
    cards: int
    binding: str


def changes(question: Question, cards: int, required_per_s: float) -> tuple[Change, ...]:
    """Return all changes, the one with the largest gain first.

    Args:
        required_per_s: the load that the cards are counted for.
    """
    today = capacity_of(question, cards)
    found = []
    for name, changed in _changed(question, today.binding.part):
        capacity = capacity_of(changed, cards)
        found.append(
            Change(
                name,
                capacity.jobs,
                capacity.events_per_s,
                capacity.events_per_s / today.events_per_s,
                cards_for(changed, required_per_s),
                capacity.binding.part,
            )
        )
    return tuple(sorted(found, key=lambda change: (-change.gain, change.cards or math.inf)))


def _changed(question: Question, binding: str) -> Iterator[tuple[str, Question]]:
    model, site, work = question.model, question.site, question.workload
    faster = _faster(site.server_gbps)
    smaller = [("16-bit rows", model.half_bytes), ("packed rows", model.packed_bytes)]
    for name, row_bytes in smaller:
        if row_bytes:
            text = f"{name}: {row_bytes[0]} + {row_bytes[1]} bytes instead of {model.input_bytes} + {model.output_bytes}"
            slim = replace(question, model=with_bytes(model, row_bytes))
            yield text, slim
            if faster:
                yield f"{name} and a server link of {faster:g} Gb/s", replace(slim, site=replace(site, server_gbps=faster))
    if faster:
        yield (
            f"server link of {faster:g} Gb/s instead of {site.server_gbps:g}",
            replace(question, site=replace(site, server_gbps=faster)),
        )
    if site.switch_gbps and (switch := _faster(site.switch_gbps)):
        yield (
            f"site switch of {switch:g} Gb/s instead of {site.switch_gbps:g}",
            replace(question, site=replace(site, switch_gbps=switch)),
        )
    merged = replace(work, rows=2 * work.rows, calls=math.ceil(work.calls / 2) if work.calls > 1 else 0.5)
    what = f"two events a call, {merged.rows:,} rows"
    if work.calls > 1:
        calls = "1 call" if merged.calls == 1 else f"{merged.calls} calls"
        what = f"{calls} of {merged.rows:,} rows an event instead of {work.calls}"
    yield f"batch size: {what}", replace(question, workload=merged)
    if binding in ("kernel", "compute units"):
        yield (
            f"{2 * model.units} compute units a card instead of {model.units}",
            replace(question, model=replace(model, units=2 * model.units)),
        )
    yield (
        f"{2 * site.cores} cores a server instead of {site.cores}",
        replace(question, site=replace(site, cores=2 * site.cores)),
    )
    if site.server == PYTHON:
        yield (
            "tritonserver with the fpga backend instead of hypersonic serve",
            replace(question, site=replace(site, server=TRITON)),
        )


def _faster(gbps: float) -> float:
    """The next usual speed that is at least 1.5 times as fast; 0 if there is none."""
    return next((speed for speed in _SPEEDS if speed >= 1.5 * gbps), 0.0)
