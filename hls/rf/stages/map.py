# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers without a table, as rf_map: ReLU and its variants, batch normalisation, hard sigmoid, casts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.raw import at_fraction, signed_width
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, operands_cost, roms_cost
from hypersonic.hls.rf.modes import MapMode
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_BOUND_WIDTH, MAX_CAST_WIDTH, Numbers, Width, shift
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Map) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, _period(layer))
    plan.finish(layer, map_stage(name, layer, x, plan.result(layer, x.lanes)))


def _period(layer: Map) -> int:
    """Return the number of elements after which the constants repeat, which the lanes must divide."""
    sizes = [values.raw.size for values in (layer.scale, layer.bias) if values.raw.size > 1]
    return max(sizes, default=layer.x.size)


def map_stage(name: str, layer: Map, x: Stream, y: Stream) -> Stage:
    """Return the rf_map stage: v = x * a + b, x > 0 ? x : x * a, x > a ? x : 0, a step, or x, then a clamp and a cast."""
    work = _map_work(layer)
    parameters: dict[str, Value] = {
        "LANES": x.lanes, "MODE": work.mode, "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed)
    }  # fmt: skip
    memories, periods = [], [1]
    for letter, values in (("A", work.a), ("B", work.b)):
        if values is None:
            continue
        words = _constant_words(values.raw, x.lanes)
        memory = Memory(f"{name}.{letter.lower()}.mem", words, (signed_width(values.raw),))
        memories.append(memory)
        periods.append(len(words))
        parameters |= {f"{letter}_WIDTH": memory.widths[0], f"{letter}_FILE": memory.file}
    parameters |= {"A_FRACTION": work.a.fraction} if work.mode == MapMode.LEAKY and work.a else {}
    if work.mode == MapMode.AFFINE and work.a and work.b:
        product = x.precision.fraction + work.a.fraction
        parameters |= {"PRODUCT_LEFT": work.fraction - product, "OFFSET_LEFT": work.fraction - work.b.fraction}
    for what, bound in (("LOW", work.low), ("HIGH", work.high)):
        parameters |= {f"CLAMP_{what}": 1, what: bound} if bound is not None else {}
    parameters |= {"PERIOD": max(periods), **result_parameters(work.fraction, layer.y.precision)}
    clamped = work.low is not None or work.high is not None
    memories = [_repeated(memory, max(periods)) for memory in memories]
    timing = one_to_one(x.beats, _CLOCKS[work.mode] + clamped)
    return Stage(name, "rf_map", layer.name, parameters, (x,), (y,), timing, tuple(memories))


#: latency of rf_map by mode, without a clamp; includes two clocks of the output FIFO
_CLOCKS = {MapMode.SAME: 5, MapMode.AFFINE: 8, MapMode.LEAKY: 7, MapMode.THRESHOLD: 6, MapMode.STEP: 6}


@dataclass(frozen=True, eq=False)
class _MapWork:
    """Parameters of rf_map: its mode, the fraction bits of v, the constants, and the bounds of v."""

    mode: MapMode
    fraction: int
    a: Constants | None = None
    b: Constants | None = None
    low: int | None = None
    high: int | None = None


def _map_work(layer: Map) -> _MapWork:
    fraction, scale, bias = layer.x.precision.fraction, layer.scale, layer.bias
    finer = max(fraction + scale.fraction, bias.fraction)
    if layer.function is MapFunction.LEAKY:
        whole = max(scale.fraction, 0)
        return _MapWork(
            MapMode.LEAKY, fraction + whole, Constants(at_fraction(scale, whole), whole) if scale.fraction < 0 else scale
        )
    if layer.function is MapFunction.THRESHOLD:  # x has no value between two steps of its type
        return _MapWork(MapMode.THRESHOLD, fraction, Constants(_floor(bias, fraction), fraction))
    if layer.function is MapFunction.AFFINE:
        return _MapWork(MapMode.AFFINE, finer, scale, bias)
    if layer.function in (MapFunction.HARD_SIGMOID, MapFunction.HARD_TANH):
        return _hard(layer.function, finer, scale, bias)
    if layer.function is MapFunction.STEP:
        above, below = (Constants(_floor(values, fraction), fraction) for values in (scale, bias))
        return _MapWork(MapMode.STEP, 0, above, below)
    return _bounded(layer.function, fraction, bias)


def _hard(function: MapFunction, finer: int, scale: Constants, bias: Constants) -> _MapWork:
    """Return the work for clamp(v, 0, 1), or for 2 * clamp(v, 0, 1) - 1, which is clamp(2 * v - 1, -1, 1)."""
    if function is MapFunction.HARD_SIGMOID:
        return _MapWork(MapMode.AFFINE, finer, scale, bias, low=0, high=1 << finer)
    doubled = Constants(2 * bias.raw - (1 << bias.fraction), bias.fraction)
    return _MapWork(MapMode.AFFINE, finer, Constants(2 * scale.raw, scale.fraction), doubled, -1 << finer, 1 << finer)


def _bounded(function: MapFunction, fraction: int, cap: Constants) -> _MapWork:
    """Return the work for x itself, for max(x, 0), or for x clamped to a cap, which need not be on x's grid."""
    if function is not MapFunction.CAP:
        return _MapWork(MapMode.SAME, fraction, low=None if function is MapFunction.LINEAR else 0)
    finer = max(fraction, cap.fraction)
    high = int(at_fraction(cap, finer)[0])
    if finer == fraction:
        return _MapWork(MapMode.SAME, fraction, low=0, high=high)
    return _MapWork(MapMode.AFFINE, finer, Constants(np.ones(1, np.int64), 0), Constants(np.zeros(1, np.int64), 0), 0, high)


def _floor(values: Constants, fraction: int) -> NDArray[Any]:
    shift = fraction - values.fraction
    return np.array([int(raw) << shift if shift >= 0 else int(raw) >> -shift for raw in values.raw], dtype=object)


def _constant_words(raw: NDArray[Any], lanes: int) -> NDArray[Any]:
    """Return the constants as words, one for each beat of the period."""
    return np.broadcast_to(raw, (lanes,)).reshape(1, lanes) if raw.size == 1 else raw.reshape(-1, lanes)


def _repeated(memory: Memory, period: int) -> Memory:
    return replace(memory, words=np.resize(memory.words, (period, memory.words.shape[1])))


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    lanes, x, mode, a = numbers["LANES"], numbers["X_WIDTH"] + 1, numbers["MODE"], numbers.get("A_WIDTH", 8)
    b = numbers.get("B_WIDTH", 8)
    lane = Amounts(ff=x)
    width = x
    if mode == MapMode.AFFINE:
        width = max(x + a + numbers["PRODUCT_LEFT"], b + numbers["OFFSET_LEFT"]) + 1
        lane += operands_cost(x, a) + Amounts(lut=width, ff=2 * b + width)
    elif mode == MapMode.LEAKY:
        factor = max(a, numbers["A_FRACTION"] + 2)
        width = x + factor
        # the factor is chosen by the sign, with registers outside of the DSP48E2
        lane += operands_cost(x, factor) + Amounts(lut=factor, ff=factor)
    elif mode != MapMode.SAME:
        lane += Amounts(lut=2 * x, ff=x)
    clamped = bool(numbers.get("CLAMP_LOW", 0) or numbers.get("CLAMP_HIGH", 0))
    # a clamp at zero uses the reset of the registers
    compared = bool(numbers.get("LOW", 0) or numbers.get("CLAMP_HIGH", 0))
    lane += Amounts(lut=1.5 * width * compared, ff=width * clamped) + cast_cost(width, numbers)
    latency = _CLOCKS[MapMode(mode)] - 2 + clamped
    index = Amounts(lut=10, ff=8) if mode != MapMode.SAME else NOTHING
    return (
        lane.times(lanes)
        + flow_cost(lanes * numbers["Y_WIDTH"], latency)
        + roms_cost(memory.shape for memory in stage.memories)
        + index
    )


def _mapped(numbers: Numbers) -> Width:
    a, b, x = (numbers.get(f"{letter}_WIDTH", 8) for letter in "ABX")
    width = x + 1
    if numbers["MODE"] == MapMode.AFFINE:
        width = max(x + 1 + a + numbers["PRODUCT_LEFT"], b + numbers["OFFSET_LEFT"]) + 1
    elif numbers["MODE"] == MapMode.LEAKY:
        width = x + 1 + max(a, numbers["A_FRACTION"] + 2)
    return Width(width, MAX_CAST_WIDTH, "a number")


def _bound(numbers: Numbers) -> Width:
    greatest = max(abs(numbers.get("LOW", 0)), abs(numbers.get("HIGH", 0)))
    return Width(greatest.bit_length() + 1, MAX_BOUND_WIDTH, "a bound")


STAGE = StageType(
    ("rf_map",),
    _cost,
    (_mapped, _bound, shift),
    LayerPlan(Map, _plan),
    long=("LOW", "HIGH"),
)
