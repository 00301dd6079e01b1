# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling over a whole image, as rf_global_pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import memory_cost
from hypersonic.hls.rf.layers import Layer, OneInput, Tensor
from hypersonic.hls.rf.needs import in_turn
from hypersonic.hls.rf.parts.attributes import precision, streamed
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, quotient, shift
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerType, Planner, StageType
from hypersonic.hls.rf.stages.pool import (
    DIVIDE_CLOCKS,
    POOL_CLOCKS,
    PoolOperation,
    cast_before,
    casts_after,
    pool_cost,
    pool_operation,
    pool_types,
    pool_width,
)


@dataclass(frozen=True)
class GlobalPool(OneInput):
    """Pooling of each channel over all pixels: Pool with the whole image as its window."""

    operation: PoolOperation
    accum: FixedPoint


def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read a GlobalPooling1D or GlobalPooling2D."""
    operation, accum = pool_operation(layer), precision(layer, "accum_t")
    height, width, _ = x.image
    before, source = cast_before(layer, x, operation, accum, height * width, streamed=streamed(layer))
    result, after = casts_after(layer, source, y, operation, accum)
    return (*before, GlobalPool(layer.name, source, result, operation, accum), *after)


def _plan(plan: Planner, layer: GlobalPool) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.channels)
    plan.finish(layer, global_pool_stage(name, layer, x, plan.result(layer, x.lanes)))


def global_pool_stage(name: str, layer: GlobalPool, x: Stream, y: Stream) -> Stage:
    """Return the rf_global_pool stage, which keeps one number per channel."""
    height, width, channels = layer.x.image
    average = layer.operation is PoolOperation.AVERAGE
    parameters: dict[str, Value] = {
        "OP": int(average), "LANES": x.lanes, "PIXELS": height * width, "CHANNEL_BEATS": channels // x.lanes,
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
    LayerType(GlobalPool, _plan, {"GlobalPooling1D": _read, "GlobalPooling2D": _read}),
)
