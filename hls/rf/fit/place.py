# SPDX-License-Identifier: Apache-2.0
"""The resources of a whole pipeline, and the choice of memories for its weights so that it fits."""

from __future__ import annotations

from collections.abc import Collection

from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import block_rams, fifo_cost, flow_cost, skid_cost, ultra_rams
from hypersonic.hls.rf.registry import has_multipliers, stage_cost
from hypersonic.hls.rf.stage import Feed, Pipeline, Stage, feed_beats
from hypersonic.hls.weight_stream import WEIGHT_BITS

#: a reader of the card's memory with a FIFO of 512 beats
_READER = Amounts(lut=900, ff=1_200) + fifo_cost(WEIGHT_BITS, 512)


def pipeline_cost(pipeline: Pipeline) -> Amounts:
    """Return the resources of all stages, with weights in block RAM or LUTs."""
    return sum((stage_cost(stage) for stage in pipeline.stages), NOTHING)


def place_weights(
    pipeline: Pipeline, taken: Amounts, budget: Amounts, port_beats: int = 0
) -> tuple[Amounts, dict[str, WeightsIn]]:
    """Choose memories for the weights; return the resulting resources and, by layer name, where the weights are.

    Weights are in block RAM. If that overflows, the ones that use block RAM least efficiently go to UltraRAM. If that overflows
    too, layers stay in the card's memory, those first whose bits are needed least often, as long as port_beats suffice.

    Args:
        taken: pipeline_cost plus what surrounds the core.
        port_beats: beats per row that the port can spare for weights.
    """
    working = [stage for stage in pipeline.stages if has_multipliers(stage) and stage.memories]
    places = {stage.layer: WeightsIn.BRAM if _rams(stage) else WeightsIn.LUT for stage in working}
    large = _large(pipeline)
    outside = card_order(pipeline)
    while True:
        total, loaded = _load_weights(large, taken, budget)
        if loaded is not None or not outside or beats_a_row(outside[0]) > port_beats:
            return total, places | (loaded or {})
        stage = outside.pop(0)
        large.remove(stage)
        port_beats -= beats_a_row(stage)
        taken += _streamed(stage)
        places[stage.layer] = WeightsIn.DRAM


def _load_weights(large: list[Stage], taken: Amounts, budget: Amounts) -> tuple[Amounts, dict[str, WeightsIn] | None]:
    """Return the resources with some stages' weights in UltraRAM, and which ones; None for these if it does not fit."""
    loaded: dict[str, WeightsIn] = {}
    for stage in _by_efficiency(large):
        if taken.bram36 <= budget.bram36:
            break
        taken += _moved(stage)
        loaded[stage.layer] = WeightsIn.URAM
    return taken, loaded if taken.bram36 <= budget.bram36 and taken.uram <= budget.uram else None


def card_order(pipeline: Pipeline) -> list[Stage]:
    """Return the stages whose weights can stay in the card's memory, first those whose bits are needed least often."""
    return sorted(_large(pipeline), key=lambda stage: (beats_a_row(stage) / stage.memories[0].bits, -stage.memories[0].bits))


def stage_costs(pipeline: Pipeline, outside: Collection[str]) -> tuple[list[Amounts], Amounts]:
    """Return the resources of each stage, with weights in block RAM or LUTs, and those of the readers of the card's memory,
    which are in the kernel's shell.

    Args:
        outside: layers whose weights are in the card's memory.
    """
    costs = [
        stage_cost(stage) + (_lanes(stage) if has_multipliers(stage) and stage.layer in outside else NOTHING)
        for stage in pipeline.stages
    ]
    return costs, _READER.times(len(outside))


def ultra_moves(pipeline: Pipeline, outside: Collection[str]) -> dict[int, Amounts]:
    """Return the index of each stage whose weights can go to UltraRAM, with the change of resources.

    Args:
        outside: layers whose weights are in the card's memory.
    """
    large = {stage.name: stage for stage in _large(pipeline) if stage.layer not in outside}
    return {k: _moved(stage) for k, stage in enumerate(pipeline.stages) if stage.name in large}


def _large(pipeline: Pipeline) -> list[Stage]:
    return [stage for stage in pipeline.stages if stage.module == "rf_mac" and stage.memories and _rams(stage)]


def _by_efficiency(large: list[Stage]) -> list[Stage]:
    return sorted(large, key=lambda stage: (_rams(stage) / _urams(stage), _rams(stage)), reverse=True)


def _rams(stage: Stage) -> int:
    return block_rams(len(stage.memories[0].words), stage.memories[0].width)


def _urams(stage: Stage) -> int:
    return ultra_rams(len(stage.memories[0].words), stage.memories[0].width)


def _moved(stage: Stage) -> Amounts:
    """Return the change of resources if weights move from rf_mac's memory to an rf_weights in front of rf_mac_stream.

    That adds two registers of a word, its FIFO, and a register for a beat that is passed on or collected.
    """
    word = flow_cost(stage.memories[0].width, 2)
    more = Amounts(lut=80, ff=3 * stage.memories[0].width + 80)
    return word + more + skid_cost(WEIGHT_BITS) + Amounts(bram36=-_rams(stage), uram=_urams(stage))


def _streamed(stage: Stage) -> Amounts:
    """Return the change of resources if weights move from rf_mac's memory to the card's: an rf_lanes and a _READER more."""
    return _READER + _lanes(stage)


def _lanes(stage: Stage) -> Amounts:
    return skid_cost(max(WEIGHT_BITS, stage.memories[0].width)) + Amounts(bram36=-_rams(stage))


def beats_a_row(stage: Stage) -> int:
    """Return the beats per row that an rf_mac would read from the card's memory if its weights were there."""
    memory = stage.memories[0]
    return stage.timing.ii // len(memory.words) * feed_beats(Feed(memory, repeats=True))
