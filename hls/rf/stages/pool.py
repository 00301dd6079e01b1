# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling, as rf_window and rf_pool, and code that stages/global_pool.py shares."""

from __future__ import annotations

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.pool import Pool, PoolOperation
from hypersonic.hls.network.windows import window_shape
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, multiply_cost
from hypersonic.hls.rf.modes import PoolOp
from hypersonic.hls.rf.needs import groups
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, quotient, shift
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType
from hypersonic.hls.rf.stages.window import add_window

#: clocks from the edge that accepts a beat to the edge at which its result can be accepted; DIVIDE_CLOCKS more for an average
POOL_CLOCKS = 6
DIVIDE_CLOCKS = 4


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Pool) -> None:
    seen, kind = layer.window, layer.x.precision
    beats = layer.y.size * seen.kernel[1]
    lanes = plan.fewest_lanes(layer.x.channels, max(beats, layer.x.size))
    pad_value = 1 << (kind.width - 1) if layer.operation is PoolOperation.MAX and kind.signed else 0  # its bits
    x = add_window(plan, layer, seen, lanes, pad_value)
    plan.finish(layer, pool_stage(plan.stage_name(layer.name), layer, x, plan.result(layer, lanes)))


def pool_stage(name: str, layer: Pool, x: Stream, y: Stream) -> Stage:
    """Return the rf_pool stage after a window stage with the same lanes."""
    height, width, channels = layer.x.image
    seen, (out_height, out_width) = layer.window, window_shape(layer.x, layer.window)
    average = layer.operation is PoolOperation.AVERAGE
    parameters: dict[str, Value] = {
        "OP": PoolOp.AVERAGE if average else PoolOp.MAX, "LANES": y.lanes,
        "CHANNEL_BEATS": channels // y.lanes, "H": height, "W": width,
        "K_H": seen.kernel[0], "K_W": seen.kernel[1], "S_H": seen.stride[0], "S_W": seen.stride[1],
        "PAD_TOP": seen.pad_top, "PAD_LEFT": seen.pad_left, "OUT_H": out_height, "OUT_W": out_width,
        "COUNT_PAD": int(layer.count_pad), **pool_types(layer.operation, layer.accum, x, layer.y),
    }  # fmt: skip
    latency = POOL_CLOCKS + (seen.kernel[0] - 1).bit_length() + DIVIDE_CLOCKS * average
    timing = Timing((groups(y.beats, seen.kernel[1]),), latency, seen.kernel[1], x.beats)
    return Stage(name, "rf_pool", layer.name, parameters, (x,), (y,), timing)


def pool_types(operation: PoolOperation, accum: FixedPoint, x: Stream, y: Tensor) -> dict[str, Value]:
    """Return the parameters of rf_pool and rf_global_pool that describe types."""
    kind = x.precision
    if operation is PoolOperation.MAX:
        return {"X_WIDTH": kind.width, "X_SIGNED": int(kind.signed), **result_parameters(kind.fraction, y.precision)}
    return {
        "X_WIDTH": kind.width, "X_SIGNED": int(kind.signed), "X_SHIFT": kind.fraction - accum.fraction,
        "ACC_WIDTH": accum.width, "ACC_SIGNED": int(accum.signed), **result_parameters(accum.fraction, y.precision),
    }  # fmt: skip


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    return pool_cost(numbers, numbers["K_H"], numbers["K_H"] * numbers["K_W"])


def pool_cost(numbers: Numbers, rows: int, pixels: int, kept: Amounts = NOTHING) -> Amounts:
    """Return the resources of rf_pool or rf_global_pool.

    Args:
        rows: pixels that are compared or added at a time.
        pixels: of a window.
        kept: resources of a memory for intermediate results.
    """
    lanes, average = numbers["LANES"], numbers["OP"] == PoolOp.AVERAGE
    value = pool_width(numbers)
    lane = Amounts(lut=value * (rows if average else 1.5 * rows - 1 + 0.5), ff=2 * rows * value) + cast_cost(value, numbers)
    if average:
        lane += _divide(value, pixels)
    return lane.times(lanes) + kept + flow_cost(lanes * numbers["Y_WIDTH"], 8) + Amounts(lut=15, ff=10)


def pool_width(numbers: Numbers) -> int:
    """Return the bits of a sum or of a maximum."""
    return numbers["ACC_WIDTH"] if numbers["OP"] == PoolOp.AVERAGE else numbers["X_WIDTH"]


def _divide(width: int, count: int) -> Amounts:
    """Resources of an rf_divide by a constant."""
    if count & (count - 1) == 0:
        return Amounts(lut=4.5 * width, ff=4.3 * width)
    point = width + (count - 1).bit_length()
    return Amounts(lut=4.5 * width + 10, ff=3 * width + 16) + multiply_cost(width + 1, point + 2)


STAGE = StageType(("rf_pool",), _cost, (accumulator, quotient, shift), LayerPlan(Pool, _plan))
