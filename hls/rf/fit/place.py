# SPDX-License-Identifier: Apache-2.0
"""The resources of a whole pipeline, and where the weights of its layers are to be so that it fits."""

from __future__ import annotations

from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import block_rams, fifo_cost, flow_cost, skid_cost, ultra_rams
from hypersonic.hls.rf.layers import WeightsIn
from hypersonic.hls.rf.registry import has_multipliers, stage_cost
from hypersonic.hls.rf.stage import Feed, Pipeline, Stage, feed_beats
from hypersonic.hls.weight_stream import WEIGHT_BITS


def pipeline_cost(pipeline: Pipeline) -> Amounts:
    """All stages, weights in block RAM or LUTs."""
    return sum((stage_cost(stage) for stage in pipeline.stages), NOTHING)


def place_weights(
    pipeline: Pipeline, taken: Amounts, budget: Amounts, port_beats: int = 0
) -> tuple[Amounts, dict[str, WeightsIn]]:
    """taken: pipeline_cost and what is around the core -> what it is then, and where each layer's weights are: in block RAM,
    and where that overflows, the memories that block RAM holds worst in UltraRAM. Where that overflows too, layers stay in the
    card's memory, those first whose bits are asked for least often, as long as port_beats beats a row suffice for them."""
    working = [stage for stage in pipeline.stages if has_multipliers(stage)]
    places = {stage.layer: WeightsIn.BRAM if _rams(stage) else WeightsIn.LUT for stage in working}
    large = [stage for stage in working if stage.module == "rf_mac" and _rams(stage)]
    outside = sorted(large, key=lambda stage: (beats_a_row(stage) / stage.memories[0].bits, -stage.memories[0].bits))
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
    """The resources with some of the stages' weights in UltraRAM, and which; None where it has not enough for them."""
    loaded: dict[str, WeightsIn] = {}
    for stage in sorted(large, key=lambda stage: (_rams(stage) / _urams(stage), _rams(stage)), reverse=True):
        if taken.bram36 <= budget.bram36:
            break
        taken += _moved(stage)
        loaded[stage.layer] = WeightsIn.URAM
    return taken, loaded if taken.bram36 <= budget.bram36 and taken.uram <= budget.uram else None


def _rams(stage: Stage) -> int:
    return block_rams(len(stage.memories[0].words), stage.memories[0].width)


def _urams(stage: Stage) -> int:
    return ultra_rams(len(stage.memories[0].words), stage.memories[0].width)


def _moved(stage: Stage) -> Amounts:
    """From rf_mac's memory to rf_weights' in front of rf_mac_stream: two more registers of a word and its FIFO, and a beat that
    is passed on or gathered."""
    word = flow_cost(stage.memories[0].width, 2)
    more = Amounts(lut=80, ff=3 * stage.memories[0].width + 80)
    return word + more + skid_cost(WEIGHT_BITS) + Amounts(bram36=-_rams(stage), uram=_urams(stage))


def _streamed(stage: Stage) -> Amounts:
    """From rf_mac's memory to a reader of the card's memory, with a FIFO of 512 beats, and rf_lanes."""
    reader = Amounts(lut=900, ff=1_200) + fifo_cost(WEIGHT_BITS, 512)
    return reader + skid_cost(max(WEIGHT_BITS, stage.memories[0].width)) + Amounts(bram36=-_rams(stage))


def beats_a_row(stage: Stage) -> int:
    """Beats of the card's memory that a row takes of an rf_mac whose weights stay there."""
    memory = stage.memories[0]
    return stage.timing.ii // len(memory.words) * feed_beats(Feed(memory, repeats=True))
