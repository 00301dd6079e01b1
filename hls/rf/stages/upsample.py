# SPDX-License-Identifier: Apache-2.0
"""Nearest-neighbour upsampling, as rf_upsample."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.network.layers.upsample import Upsample
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import flow_cost, memory_cost
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: clocks from the edge that accepts a beat to the edge at which its first copy can be accepted
UPSAMPLE_CLOCKS = 4


def _plan(plan: Planner, layer: Upsample) -> None:
    name = plan.stage_name(layer.name)
    x = plan.with_lanes(plan.take(layer.x), plan.fewest_lanes(layer.x.channels, layer.y.size), layer.name)
    plan.finish(layer, upsample_stage(name, layer, x, plan.result(layer, x.lanes)))


def upsample_stage(name: str, layer: Upsample, x: Stream, y: Stream) -> Stage:
    """Return the rf_upsample stage, which buffers two image rows."""
    (height, width, channels), (down, across) = layer.x.image, layer.factor
    beats = channels // x.lanes
    parameters: dict[str, Value] = {"WIDTH": x.width, "W": width, "BEATS": beats, "FACTOR_H": down, "FACTOR_W": across}
    index = np.arange(height * width * beats).reshape(height, 1, width, 1, beats)
    needs = np.broadcast_to(index, (height, down, width, across, beats)).reshape(-1)
    timing = Timing((np.maximum.accumulate(needs),), UPSAMPLE_CLOCKS, 1, y.beats)
    bits = 2 * width * channels * x.precision.width
    return Stage(name, "rf_upsample", layer.name, parameters, (x,), (y,), timing, ram_bits=bits)


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    return (
        memory_cost(numbers["W"] * numbers["BEATS"], numbers["WIDTH"]).times(2)
        + flow_cost(numbers["WIDTH"], 2)
        + Amounts(lut=22 + numbers["WIDTH"])
    )


STAGE = StageType(("rf_upsample",), _cost, NO_LIMIT, LayerPlan(Upsample, _plan))
