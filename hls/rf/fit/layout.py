# SPDX-License-Identifier: Apache-2.0
"""A unit that is larger than a die on the dies of a card: which stages are on which die, and where their weights are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.crossings import chained
from hypersonic.hls.rf.dies import Division, NoDivisionError, Parts, divide, joined, links
from hypersonic.hls.rf.fit.design import CardResources, DiePlan
from hypersonic.hls.rf.fit.place import beats_a_row, card_order, place_weights, stage_costs, ultra_moves
from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.weight_stream import WEIGHT_BITS


@dataclass(frozen=True)
class Layout:
    """A unit on several dies.

    Attributes:
        unit: its resources.
        weights_in: by layer name.
        dies: None if it does not fit.
        short: then the die on which it has no room, and what is short there; "" if all dies together have too little.
    """

    unit: Amounts
    weights_in: dict[str, WeightsIn]
    dies: DiePlan | None = None
    short: str = ""


def over_dies(pipeline: Pipeline, taken: Amounts, card: CardResources, spare: int, asked: Collection[str]) -> Layout:
    """Return the unit on the card's dies.

    Each die has its own weights in block RAM, and those for which it has too little in UltraRAM. Weights that the dies do not
    hold stay in the card's memory.

    Args:
        taken: pipeline_cost plus the kernel's shell.
        spare: beats per row that the port can spare for weights.
        asked: layers whose weights are loaded at run time in any case.
    """
    unit, places = place_weights(pipeline, taken, card.whole, spare)
    if not unit.fits(card.whole):
        return Layout(unit, places)
    order, first = card_order(pipeline), list(places.values()).count(WeightsIn.DRAM)
    short = ""
    for count in range(first, len(order) + 1):
        if sum(map(beats_a_row, order[:count])) > spare and count > first:
            break
        try:
            return _divided(pipeline, places, {stage.layer for stage in order[:count]}, card, asked)
        except NoDivisionError as error:
            layer = pipeline.stages[min(error.stage, chained(pipeline.stages) - 1)].layer
            short = short or f"has no room on SLR{error.die} for layer {layer!r}: {error.short}"
    return Layout(unit, places, None, short)


def _divided(
    pipeline: Pipeline, places: Mapping[str, WeightsIn], outside: set[str], card: CardResources, asked: Collection[str]
) -> Layout:
    """Return the unit with the weights of some layers in the card's memory. Raises NoDivisionError."""
    costs, readers = stage_costs(pipeline, outside)
    moves, count, beats = ultra_moves(pipeline, outside), chained(pipeline.stages), dict.fromkeys(outside, WEIGHT_BITS)
    ultra = {pipeline.stages[stage].layer for stage in moves}
    shell, never = sum(costs[count:], card.shell + readers), joined(pipeline)
    parts = Parts(costs[:count], moves, links(pipeline, {*ultra, *outside, *asked}, beats), shell, never)
    found = divide(parts, card.dies, card.boundary_wires)
    ultra = {pipeline.stages[stage].layer for stage in found.moved}
    chosen = {layer: WeightsIn.BRAM if place is not WeightsIn.LUT else place for layer, place in places.items()}
    chosen |= dict.fromkeys(ultra, WeightsIn.URAM) | dict.fromkeys(outside, WeightsIn.DRAM)
    plan = _plan(pipeline, found)
    return Layout(plan.total, chosen, plan)


def _plan(pipeline: Pipeline, found: Division) -> DiePlan:
    count = chained(pipeline.stages)
    bounds = [0, *found.cuts, count]
    parts = [_layers(pipeline.stages[first:last]) for first, last in pairwise(bounds)]
    return DiePlan(
        tuple(pipeline.stages[cut].name if cut < count else "" for cut in found.cuts), found.amounts,
        tuple((part[0], part[-1]) if part else () for part in parts), found.wires,
    )  # fmt: skip


def _layers(stages: Sequence[Stage]) -> list[str]:
    """Return the layers of the stages, without those between layers, which have names of tensors."""
    return [stage.layer for stage in stages if stage.module != "rf_lanes"]
