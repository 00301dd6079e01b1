# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling, as rf_window and rf_pool, and code that stages/global_pool.py shares."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hypersonic.hls.fixed import FixedPoint, Overflow
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import cast_cost, dsps, flow_cost
from hypersonic.hls.rf.layers import Layer, OneInput, Tensor, Window
from hypersonic.hls.rf.needs import groups
from hypersonic.hls.rf.parts.attributes import SHIFT_INVARIANT, precision, refuse, streamed, window
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, quotient, shift
from hypersonic.hls.rf.parts.maps import linear
from hypersonic.hls.rf.parts.windows import window_shape
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerType, Planner, StageType
from hypersonic.hls.rf.stages.window import add_window

#: clocks from the edge that accepts a beat to the edge at which its result can be accepted; DIVIDE_CLOCKS more for an average
POOL_CLOCKS = 6
DIVIDE_CLOCKS = 4


class PoolOperation(StrEnum):
    """hls4ml's names of the operations."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True)
class Pool(OneInput):
    """Pooling of each window of each channel to one number.

    nnet_pooling.h: max is the largest x, cast to accum, then to the type of y. A padded pixel is the smallest number of the
    type (frontend/repairs.py). average is the sum in accum by assignments, divided towards zero in accum by the number of
    pixels of the window inside the image (by all pixels if count_pad), then cast to the type of y. nnet_pooling_stream.h
    (io_stream; no padding): the same after a cast of every x to accum.
    """

    operation: PoolOperation
    window: Window
    accum: FixedPoint
    count_pad: bool = False


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read a Pooling1D or Pooling2D, with a cast to accum before it if the C++ casts every number."""
    seen, operation = window(layer, "pool"), pool_operation(layer)
    if streamed(layer) and (seen.padded or seen.kernel != seen.stride):
        raise refuse(
            layer, f"{seen} in io_stream, where hls4ml takes no padding and a stride equal to the pool: use io_parallel"
        )
    accum = precision(layer, "accum_t")
    before, source = cast_before(layer, x, operation, accum, seen.size, streamed=streamed(layer))
    result, after = casts_after(layer, source, y, operation, accum)
    return (*before, Pool(layer.name, source, result, operation, seen, accum, bool(layer.get_attr("count_pad", False))), *after)


def pool_operation(layer: Any) -> PoolOperation:
    """Return the operation of hls4ml's pooling layer."""
    return PoolOperation(str(layer.get_attr("pool_op")).lower())


def cast_before(
    layer: Any, x: Tensor, operation: PoolOperation, accum: FixedPoint, count: int, *, streamed: bool
) -> tuple[tuple[Layer, ...], Tensor]:
    """Return the cast that a pooling layer needs before it, if any, and the tensor that the pooling reads.

    count: pixels of a window. Raises UnsupportedLayerError if an average depends on the order of its sum.
    """
    if operation is PoolOperation.MAX:
        if not streamed or _holds(accum, x.precision):
            return (), x
        return _cast(layer, x, accum)  # the stream version compares numbers after the cast
    _check_sum(layer, x.precision, accum, count)
    if accum.fraction >= x.precision.fraction and not streamed:
        return (), x
    return ((), x) if _holds(accum, x.precision) else _cast(layer, x, accum)


def casts_after(
    layer: Any, x: Tensor, y: Tensor, operation: PoolOperation, accum: FixedPoint
) -> tuple[Tensor, tuple[Layer, ...]]:
    """Return the pooling's result and the casts after it: a maximum is cast to accum first if that can change it."""
    if operation is PoolOperation.AVERAGE or _holds(accum, x.precision):
        return y, ()
    greatest = Tensor(f"{y.name}_greatest", y.shape, x.precision)
    cast = Tensor(f"{y.name}_accum", y.shape, accum)
    steps = ((f"{layer.name}_accum", greatest, cast), (f"{layer.name}_result", cast, y))
    return greatest, tuple(linear(name, a, b) for name, a, b in steps)


def _holds(outer: FixedPoint, inner: FixedPoint) -> bool:
    """Return whether the type `outer` can represent every number of the type `inner`."""
    shift = outer.fraction - inner.fraction
    return shift >= 0 and outer.min_raw <= inner.min_raw << shift and inner.max_raw << shift <= outer.max_raw


def _cast(layer: Any, x: Tensor, accum: FixedPoint) -> tuple[tuple[Layer, ...], Tensor]:
    cast = Tensor(f"{x.name}_{layer.name}_accum", x.shape, accum)
    return (linear(f"{layer.name}_accum", x, cast),), cast


def _check_sum(layer: Any, x: FixedPoint, accum: FixedPoint, count: int) -> None:
    """Raise UnsupportedLayerError if the result depends on the order of the sum."""
    shift = accum.fraction - x.fraction
    if shift < 0 and accum.rounding not in SHIFT_INVARIANT:
        raise refuse(layer, f"accum is {accum} and cuts {-shift} bits of a running sum, expected AP_TRN or AP_RND")
    if accum.overflow is Overflow.WRAP:
        return
    least, most = (count * min(0, x.min_raw) - count, count * x.max_raw + count)
    scaled = [value << shift if shift >= 0 else value >> -shift for value in (least, most)]
    if scaled[0] < accum.min_raw or scaled[1] > accum.max_raw:
        raise refuse(layer, f"accum is {accum} and a sum of {count} of {x} can leave its range: give it more integer bits")


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
        "OP": int(average), "LANES": y.lanes, "CHANNEL_BEATS": channels // y.lanes, "H": height, "W": width,
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

    rows: pixels that are compared or added at a time. pixels: of a window. kept: resources of a memory for intermediate
    results.
    """
    lanes, average = numbers["LANES"], numbers["OP"] == 1
    value = pool_width(numbers)
    lane = Amounts(lut=value * (rows if average else 1.5 * rows - 1 + 0.5), ff=2 * rows * value) + cast_cost(value, numbers)
    if average:
        lane += _divide(value, pixels)
    return lane.times(lanes) + kept + flow_cost(lanes * numbers["Y_WIDTH"], 8) + Amounts(lut=15, ff=10)


def pool_width(numbers: Numbers) -> int:
    """Return the bits of a sum or of a maximum."""
    return numbers["ACC_WIDTH"] if numbers["OP"] == 1 else numbers["X_WIDTH"]


def _divide(width: int, count: int) -> Amounts:
    """Resources of an rf_divide by a constant."""
    if count & (count - 1) == 0:
        return Amounts(lut=4.5 * width, ff=width)
    point = width + (count - 1).bit_length()
    return Amounts(lut=4.5 * width + 10, ff=3 * width + 16, dsp=dsps(width + 1, point + 2))


STAGE = StageType(
    ("rf_pool",), _cost, (accumulator, quotient, shift), LayerType(Pool, _plan, {"Pooling1D": _read, "Pooling2D": _read})
)
