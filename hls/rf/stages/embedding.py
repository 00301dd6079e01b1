# SPDX-License-Identifier: Apache-2.0
"""Embeddings, which replace each index by a row of a table, as rf_embed."""

from __future__ import annotations

from hypersonic.hls.network.layers.embedding import Embedding
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import flow_cost, roms_cost
from hypersonic.hls.rf.needs import parts
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: clocks from the edge that accepts an index to the edge at which its first beat can be accepted
EMBED_CLOCKS = 6


def _plan(plan: Planner, layer: Embedding) -> None:
    name = plan.stage_name(layer.name)
    x = plan.with_lanes(plan.take(layer.x), 1, layer.name)
    lanes = plan.fewest_lanes(layer.y.channels, layer.y.size)
    plan.finish(layer, embed_stage(name, layer, x, plan.result(layer, lanes)))


def embed_stage(name: str, layer: Embedding, x: Stream, y: Stream) -> Stage:
    """Return the rf_embed stage, which takes one index per beat."""
    words, n_out = layer.table.raw.shape
    parameters: dict[str, Value] = {
        "X_WIDTH": x.precision.width, "VOCABULARY": words, "N_OUT": n_out, "LANES": y.lanes, "Y_WIDTH": y.precision.width,
        "TABLE_FILE": f"{name}.table.mem",
    }  # fmt: skip
    memory = Memory(f"{name}.table.mem", layer.table.raw.reshape(-1, y.lanes), (y.precision.width,))
    timing = Timing((parts(y.beats, n_out // y.lanes),), EMBED_CLOCKS, 1, y.beats)
    return Stage(name, "rf_embed", layer.name, parameters, (x,), (y,), timing, (memory,))


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    return (
        roms_cost(memory.shape for memory in stage.memories)
        + flow_cost(stage.outputs[0].width, 4)
        + Amounts(lut=40, ff=2 * numbers["X_WIDTH"] + 20)
    )


STAGE = StageType(("rf_embed",), _cost, NO_LIMIT, LayerPlan(Embedding, _plan))
