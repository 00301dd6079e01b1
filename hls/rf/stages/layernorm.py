# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization over the last dimension, as rf_layernorm."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, Constants, Overflow
from hypersonic.hls.network.layers.layernorm import LayerNorm, _lefts
from hypersonic.hls.network.raw import signed_width
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import cast_cost, fifo_cost, flow_cost, multiply_cost, roms_cost
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, MAX_INDEX_FRACTION, Numbers, Width, accumulator, shift
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: clocks from the edge that accepts a vector's last beat to the edge at which its first result can be accepted; sums take more
LAYERNORM_CLOCKS = 45


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: LayerNorm) -> None:
    if layer.accum.overflow is Overflow.SAT_ZERO:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: accum is {layer.accum}, which rf_layernorm lacks: use AP_SAT; {INSTEAD}"
        )
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.channels)
    plan.finish(layer, layernorm_stage(name, layer, x, plan.result(layer, x.lanes)))


def layernorm_stage(name: str, layer: LayerNorm, x: Stream, y: Stream) -> Stage:
    """Return the rf_layernorm stage, for each vector of the last dimension."""
    accum, channels = layer.accum, layer.x.channels
    beats, levels = channels // x.lanes, (x.lanes - 1).bit_length()
    left, right, fraction = _lefts(layer)
    memories = (
        Memory(f"{name}.table.mem", layer.values.raw.reshape(-1, 1), (signed_width(layer.values.raw),)),
        _channels(f"{name}.scale.mem", layer.scale, x.lanes),
        _channels(f"{name}.bias.mem", layer.bias, x.lanes),
    )
    parameters: dict[str, Value] = {
        "N": channels, "LANES": x.lanes, "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed),
        "X_SHIFT": x.precision.fraction - accum.fraction, "ACC_WIDTH": accum.width, "ACC_SIGNED": int(accum.signed),
        "ACC_FRACTION": accum.fraction, "ACC_ROUNDING": ROUNDING_CODES[accum.rounding],
        "ACC_OVERFLOW": OVERFLOW_CODES[accum.overflow], "SHARE": layer.share, "TABLE_SIZE": len(layer.values.raw),
        "TABLE_SHIFT": layer.index_fraction, "TABLE_FILE": memories[0].file, "FACTOR_WIDTH": memories[0].width,
        "S_WIDTH": memories[1].widths[0], "S_FILE": memories[1].file, "B_WIDTH": memories[2].widths[0],
        "B_FILE": memories[2].file, "PRODUCT_LEFT": left, "OFFSET_LEFT": right, **result_parameters(fraction, y.precision),
    }  # fmt: skip
    latency = LAYERNORM_CLOCKS + beats + 2 * (levels if accum.overflow is Overflow.WRAP else 2 * levels + 1)
    needs = np.repeat(np.arange(y.beats // beats) + 1, beats) * beats - 1
    return Stage(
        name, "rf_layernorm", layer.name, parameters, (x,), (y,), Timing((needs.astype(np.int64),), latency, 1, y.beats),
        memories, multipliers=3 * x.lanes, multiplications=3 * layer.y.size,
    )  # fmt: skip


def _channels(file: str, values: Constants, lanes: int) -> Memory:
    return Memory(file, values.raw.reshape(-1, lanes), (signed_width(values.raw),))


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    lanes, accum, factor, y = numbers["LANES"], numbers["ACC_WIDTH"], numbers["FACTOR_WIDTH"], numbers["Y_WIDTH"]
    beats, levels = numbers["N"] // lanes, (lanes - 1).bit_length()
    first, whole = _widths(numbers)
    mean_clocks = 2 * levels + 7 if numbers["ACC_OVERFLOW"] else levels + 6
    holds = NOTHING
    for latency, number in ((mean_clocks, accum), (mean_clocks + 11, factor)):
        depth = 1 << (beats + latency + 4).bit_length()
        holds += fifo_cost(lanes * accum + 1, depth) + fifo_cost(number, 1 << (depth // beats + 2).bit_length())
    flows = flow_cost(lanes * accum, 2) + flow_cost(lanes * accum, 3) + flow_cost(lanes * y, 8)
    square = multiply_cost(accum + 1, accum + 1) + _accum_cast(numbers, 2 * accum + 2)
    distance = Amounts(lut=accum + 2, ff=accum + 2) + _accum_cast(numbers, accum + 2, 0)
    scaled = Amounts(lut=whole, ff=accum + numbers["B_WIDTH"] + whole) + cast_cost(whole, numbers)
    scaled += multiply_cost(factor, numbers["S_WIDTH"]) + multiply_cost(accum + 1, first)
    lane = _accum_cast(numbers, numbers["X_WIDTH"], numbers["X_SHIFT"]) + distance + square + scaled
    lookup = Amounts(lut=3 * accum, ff=accum + 2 * factor + 12)
    memories = roms_cost(memory.shape for memory in stage.memories)
    return lane.times(lanes) + _mean_cost(numbers).times(2) + lookup + holds + flows + memories + Amounts(lut=10, ff=24)


def _accum_cast(numbers: Numbers, width: int, cut: int | None = None) -> Amounts:
    """The cost of a cast to accum.

    Args:
        cut: bits that it cuts, by default those of a product of two such numbers.
    """
    shifted = numbers["ACC_FRACTION"] if cut is None else cut
    kind = {"Y_WIDTH": numbers["ACC_WIDTH"], "RESULT_SHIFT": shifted, "OVERFLOW": numbers["ACC_OVERFLOW"]}
    return cast_cost(width, kind)


def _mean_cost(numbers: Numbers) -> Amounts:
    lanes, accum, share = numbers["LANES"], numbers["ACC_WIDTH"], abs(numbers["SHARE"])
    levels = (lanes - 1).bit_length()
    width, saturates = accum + levels + 2, bool(numbers["ACC_OVERFLOW"])
    # the bounds of single elements are constants
    first, others = lanes // 2, max(lanes - 1 - lanes // 2, 0)
    tree = Amounts(lut=(5 * first + 7 * others) * width, ff=(5 * first + 8 * others) * width)
    plain = Amounts(lut=(lanes - 1) * width, ff=(lanes - 1) * width)
    # with one lane the bounds of a beat are constants too
    total = Amounts(lut=4 * width, ff=(6 if lanes > 1 else 4) * width) if saturates else Amounts(lut=width, ff=width)
    factor = share.bit_length() + 1
    product = multiply_cost(accum + 1, factor) if share & (share - 1) else Amounts(ff=accum)
    flags = Amounts(lut=8, ff=3 * (2 * levels + 6))
    return (
        (tree if saturates else plain)
        + Amounts(ff=lanes * accum)
        + total
        + product
        + _accum_cast(numbers, accum + factor)
        + flags
    )


def _widths(numbers: Numbers) -> tuple[int, int]:
    """Return the bits of f times a scale, and of that times d plus the bias."""
    first = numbers["FACTOR_WIDTH"] + numbers["S_WIDTH"]
    product = numbers["ACC_WIDTH"] + 1 + first
    return first, max(product + numbers["PRODUCT_LEFT"], numbers["B_WIDTH"] + numbers["OFFSET_LEFT"]) + 1


def _sum(numbers: Numbers) -> Width:
    return Width(_widths(numbers)[1], MAX_CAST_WIDTH, "a sum")


def _square(numbers: Numbers) -> Width:
    """Width of the square of a distance, and of a sum times SHARE."""
    return Width(max(2 * (numbers["ACC_WIDTH"] + 1), numbers["ACC_WIDTH"] + 33), MAX_CAST_WIDTH, "a square")


def _index(numbers: Numbers) -> Width:
    return Width(numbers["TABLE_SHIFT"], MAX_INDEX_FRACTION, "an index's fraction")


STAGE = StageType(
    ("rf_layernorm",),
    _cost,
    (_sum, _square, _index, accumulator, shift),
    LayerPlan(LayerNorm, _plan),
)
