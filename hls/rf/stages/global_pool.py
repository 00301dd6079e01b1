# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling over a whole image, as rf_global_pool."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.network.layers.global_pool import GlobalPool
from hypersonic.hls.network.layers.pool import PoolOperation
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import memory_cost
from hypersonic.hls.rf.modes import PoolOp
from hypersonic.hls.rf.needs import in_turn
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, quotient, shift
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType
from hypersonic.hls.rf.stages.pool import DIVIDE_CLOCKS, POOL_CLOCKS, pool_cost, pool_types, pool_width


def _plan(plan: Planner, layer: GlobalPool) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.channels)
    plan.finish(layer, global_pool_stage(name, layer, x, plan.result(layer, x.lanes)))


def global_pool_stage(name: str, layer: GlobalPool, x: Stream, y: Stream) -> Stage:
    """Return the rf_global_pool stage, which keeps one number per channel."""
    height, width, channels = layer.x.image
    average = layer.operation is PoolOperation.AVERAGE
    parameters: dict[str, Value] = {
        "OP": PoolOp.AVERAGE if average else PoolOp.MAX, "LANES": x.lanes,
        "PIXELS": height * width, "CHANNEL_BEATS": channels // x.lanes,
        **pool_types(layer.operation, layer.accum, x, layer.y),
    }  # fmt: skip
    images = layer.x.images
    needs = in_turn(np.arange(y.beats // images) + (x.beats - y.beats) // images, images, x.beats // images)
    timing = Timing((needs,), POOL_CLOCKS + DIVIDE_CLOCKS * average, 1, x.beats)
    return Stage(name, "rf_global_pool", layer.name, parameters, (x,), (y,), timing, ram_bits=channels * layer.accum.width)


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    beats, width = numbers["CHANNEL_BEATS"], numbers["LANES"] * pool_width(numbers)
    return pool_cost(numbers, 1, numbers["PIXELS"], memory_cost(beats, width) if beats > 1 else NOTHING)


STAGE = StageType(
    ("rf_global_pool",),
    _cost,
    (accumulator, quotient, shift),
    LayerPlan(GlobalPool, _plan),
)
