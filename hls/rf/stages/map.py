# SPDX-License-Identifier: Apache-2.0
"""Stages that take elements, pixels or rows as they come: maps, tables, pools, joins, padding, embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, Overflow, Precision
from hypersonic.hls.rf.layers import (
    Concatenate,
    Embedding,
    GlobalPool,
    Map,
    MapFunction,
    Merge,
    MergeOperation,
    Pool,
    PoolOperation,
    Softmax,
    SoftmaxKind,
    Table,
    Upsample,
    ZeroPad,
)
from hypersonic.hls.rf.parts.casts import at_fraction, overflow, result_parameters, rounding, signed_width
from hypersonic.hls.rf.parts.needs import each, groups, parts
from hypersonic.hls.rf.parts.windows import window_shape
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value

#: clocks from the edge that takes a beat to the one at which its result can be taken
TABLE_CYCLES = 9
POOL_CYCLES = 6
DIVIDE_CYCLES = 4
ADD_CYCLES = 6
UPSAMPLE_CYCLES = 4
EMBED_CYCLES = 6


def one_to_one(beats: int, latency: int, streams: int = 1) -> Timing:
    """A beat in (of each stream), a beat out."""
    return Timing((each(beats),) * streams, latency, 1, beats)


def lanes_stage(name: str, layer: str, x: Stream, y: Stream) -> Stage:
    """rf_lanes."""
    parameters: dict[str, Value] = {"IN_LANES": x.lanes, "OUT_LANES": y.lanes, "WIDTH": x.precision.width}
    if x.lanes > y.lanes:
        timing = Timing((parts(y.beats, x.lanes // y.lanes),), 2, 1, y.beats)
    else:
        timing = Timing((groups(y.beats, y.lanes // x.lanes),), 1, 1, x.beats)
    return Stage(name, "rf_lanes", layer, parameters, (x,), (y,), timing)


def fifo_stage(name: str, layer: str, x: Stream, y: Stream, depth: int) -> Stage:
    """axis_fifo: tlast travels as one more bit of data."""
    bits = depth * (x.width + 1)
    parameters: dict[str, Value] = {"WIDTH": x.width + 1, "DEPTH": depth}
    return Stage(name, "axis_fifo", layer, parameters, (x,), (y,), one_to_one(x.beats, 2), ram_bits=bits)


def fork_stage(name: str, layer: str, x: Stream, ys: tuple[Stream, ...]) -> Stage:
    """rf_fork."""
    parameters: dict[str, Value] = {"WIDTH": x.width, "COUNT": len(ys)}
    return Stage(name, "rf_fork", layer, parameters, (x,), ys, one_to_one(x.beats, 1))


def map_stage(name: str, layer: Map, x: Stream, y: Stream) -> Stage:
    """rf_map: v = x * a + b, or x > 0 ? x : x * a, or x > a ? x : 0, or x; clamped; cast."""
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
    parameters |= {"A_FRACTION": work.a.fraction} if work.mode == _LEAKY and work.a else {}
    if work.mode == _AFFINE and work.a and work.b:
        product = x.precision.fraction + work.a.fraction
        parameters |= {"PRODUCT_LEFT": work.fraction - product, "OFFSET_LEFT": work.fraction - work.b.fraction}
    for what, bound in (("LOW", work.low), ("HIGH", work.high)):
        parameters |= {f"CLAMP_{what}": 1, what: bound} if bound is not None else {}
    parameters |= {"PERIOD": max(periods), **result_parameters(work.fraction, layer.y.precision)}
    clamped = work.low is not None or work.high is not None
    memories = [_repeated(memory, max(periods)) for memory in memories]
    timing = one_to_one(x.beats, _MAP_CYCLES[work.mode] + clamped)
    return Stage(name, "rf_map", layer.name, parameters, (x,), (y,), timing, tuple(memories))


_SAME, _AFFINE, _LEAKY, _THRESHOLD = range(4)

#: rf_map's modes: clocks without a clamp, the output FIFO's two among them
_MAP_CYCLES = {_SAME: 5, _AFFINE: 8, _LEAKY: 7, _THRESHOLD: 6}


@dataclass(frozen=True, eq=False)
class _MapWork:
    """mode: rf_map's. fraction: of v. low, high: bounds of v."""

    mode: int
    fraction: int
    a: Constants | None = None
    b: Constants | None = None
    low: int | None = None
    high: int | None = None


def _map_work(layer: Map) -> _MapWork:
    fraction, scale, bias = layer.x.precision.fraction, layer.scale, layer.bias
    finer = max(fraction + scale.fraction, bias.fraction)
    if layer.function is MapFunction.LEAKY:
        return _MapWork(_LEAKY, fraction + scale.fraction, scale)
    if layer.function is MapFunction.THRESHOLD:  # between two numbers of x's grid nothing lies
        return _MapWork(_THRESHOLD, fraction, Constants(_floor(bias, fraction), fraction))
    if layer.function is MapFunction.AFFINE:
        return _MapWork(_AFFINE, finer, scale, bias)
    if layer.function is MapFunction.HARD_SIGMOID:
        return _MapWork(_AFFINE, finer, scale, bias, low=0, high=1 << finer)
    if layer.function is MapFunction.HARD_TANH:  # 2 * clamp(v, 0, 1) - 1 is clamp(2 * v - 1, -1, 1)
        doubled = Constants(2 * bias.raw - (1 << bias.fraction), bias.fraction)
        return _MapWork(_AFFINE, finer, Constants(2 * scale.raw, scale.fraction), doubled, -1 << finer, 1 << finer)
    return _bounded(layer.function, fraction, bias)


def _bounded(function: MapFunction, fraction: int, cap: Constants) -> _MapWork:
    """x itself, from zero up, or up to a cap, which may lie between two numbers of x's grid."""
    if function is not MapFunction.CAP:
        return _MapWork(_SAME, fraction, low=None if function is MapFunction.LINEAR else 0)
    finer = max(fraction, cap.fraction)
    high = int(at_fraction(cap, finer)[0])
    if finer == fraction:
        return _MapWork(_SAME, fraction, low=0, high=high)
    return _MapWork(_AFFINE, finer, Constants(np.ones(1, np.int64), 0), Constants(np.zeros(1, np.int64), 0), 0, high)


def _floor(values: Constants, fraction: int) -> NDArray[Any]:
    shift = fraction - values.fraction
    return np.array([int(raw) << shift if shift >= 0 else int(raw) >> -shift for raw in values.raw], dtype=object)


def _constant_words(raw: NDArray[Any], lanes: int) -> NDArray[Any]:
    """One word for each beat of the period."""
    return np.broadcast_to(raw, (lanes,)).reshape(1, lanes) if raw.size == 1 else raw.reshape(-1, lanes)


def _repeated(memory: Memory, period: int) -> Memory:
    return replace(memory, words=np.resize(memory.words, (period, memory.words.shape[1])))


def table_stage(name: str, layer: Table, x: Stream, y: Stream) -> Stage:
    """rf_table: the C++'s own index."""
    kind, size = x.precision, len(layer.values.raw)
    parameters: dict[str, Value] = {
        "LANES": x.lanes, "X_WIDTH": kind.width, "X_SIGNED": int(kind.signed),
        "SCALE": -size if layer.negative_only else size, "SCALE_SHIFT": kind.fraction + layer.span_log2,
        "OFFSET": 0 if layer.negative_only else size // 2, "TABLE_SIZE": size, "TABLE_FILE": f"{name}.table.mem",
    }  # fmt: skip
    if layer.negative_only:
        parameters |= {"POSITIVE_PASS": 1, "GAIN": int(layer.scale.raw[0])}
        parameters |= result_parameters(kind.fraction + layer.scale.fraction, layer.y.precision)
    else:
        parameters["Y_WIDTH"] = y.precision.width
    memory = Memory(f"{name}.table.mem", layer.values.raw.reshape(-1, 1), (y.precision.width,))
    return Stage(name, "rf_table", layer.name, parameters, (x,), (y,), one_to_one(x.beats, TABLE_CYCLES), (memory,))


def table_value(layer: Table, kind: Precision, raw: int) -> int:
    """What the C++ answers to one number."""
    size, to = len(layer.values.raw), layer.y.precision
    if layer.negative_only and raw >= 0:
        return to.cast(raw * int(layer.scale.raw[0]), kind.fraction + layer.scale.fraction)
    steps, unit = abs(raw) * size, kind.fraction + layer.span_log2
    index = steps >> unit if unit >= 0 else steps << -unit
    if not layer.negative_only:
        index = (index if raw >= 0 else -index) + size // 2
    return int(layer.values.raw[min(max(index, 0), size - 1)])


def pool_stage(name: str, layer: Pool, x: Stream, y: Stream) -> Stage:
    """rf_pool behind a window of the same lanes."""
    height, width, channels = layer.x.image
    seen, (out_height, out_width) = layer.window, window_shape(layer.x, layer.window)
    average = layer.operation is PoolOperation.AVERAGE
    parameters: dict[str, Value] = {
        "OP": int(average), "LANES": y.lanes, "CHANNEL_BEATS": channels // y.lanes, "H": height, "W": width,
        "K_H": seen.kernel[0], "K_W": seen.kernel[1], "S_H": seen.stride[0], "S_W": seen.stride[1],
        "PAD_TOP": seen.pad_top, "PAD_LEFT": seen.pad_left, "OUT_H": out_height, "OUT_W": out_width,
        "COUNT_PAD": int(layer.count_pad), **_pool_types(layer, x),
    }  # fmt: skip
    latency = POOL_CYCLES + (seen.kernel[0] - 1).bit_length() + DIVIDE_CYCLES * average
    timing = Timing((groups(y.beats, seen.kernel[1]),), latency, seen.kernel[1], x.beats)
    return Stage(name, "rf_pool", layer.name, parameters, (x,), (y,), timing)


def global_pool_stage(name: str, layer: GlobalPool, x: Stream, y: Stream) -> Stage:
    """rf_global_pool: one number a channel is kept."""
    height, width, channels = layer.x.image
    average = layer.operation is PoolOperation.AVERAGE
    parameters: dict[str, Value] = {
        "OP": int(average), "LANES": x.lanes, "PIXELS": height * width, "CHANNEL_BEATS": channels // x.lanes,
        **_pool_types(layer, x),
    }  # fmt: skip
    needs = np.arange(y.beats) + x.beats - y.beats
    timing = Timing((needs.astype(np.int64),), POOL_CYCLES + DIVIDE_CYCLES * average, 1, x.beats)
    return Stage(name, "rf_global_pool", layer.name, parameters, (x,), (y,), timing, ram_bits=channels * layer.accum.width)


def _pool_types(layer: Pool | GlobalPool, x: Stream) -> dict[str, Value]:
    kind, accum = x.precision, layer.accum
    if layer.operation is PoolOperation.MAX:
        return {"X_WIDTH": kind.width, "X_SIGNED": int(kind.signed), **result_parameters(kind.fraction, layer.y.precision)}
    return {
        "X_WIDTH": kind.width, "X_SIGNED": int(kind.signed), "X_SHIFT": kind.fraction - accum.fraction,
        "ACC_WIDTH": accum.width, "ACC_SIGNED": int(accum.signed), **result_parameters(accum.fraction, layer.y.precision),
    }  # fmt: skip


def merge_stage(name: str, layer: Merge, a: Stream, b: Stream, y: Stream) -> Stage:
    """rf_add: both on the finer of the two grids."""
    finer = max(a.precision.fraction, b.precision.fraction)
    product = layer.operation is MergeOperation.MULTIPLY
    fraction = a.precision.fraction + b.precision.fraction if product else finer
    parameters: dict[str, Value] = {"OP": _OPERATIONS[layer.operation], "LANES": y.lanes}
    for side, kind in (("A", a.precision), ("B", b.precision)):
        parameters |= {f"{side}_WIDTH": kind.width, f"{side}_SIGNED": int(kind.signed)}
        parameters |= {f"{side}_LEFT": 0 if product else finer - kind.fraction}
    parameters |= result_parameters(fraction + (layer.operation is MergeOperation.AVERAGE), layer.y.precision)
    timing = one_to_one(y.beats, ADD_CYCLES, 2)
    return Stage(
        name, "rf_add", layer.name, parameters, (a, b), (y,), timing,
        multipliers=y.lanes if product else 0, multiplications=layer.y.size if product else 0,
    )  # fmt: skip


_OPERATIONS = {
    MergeOperation.ADD: 0,
    MergeOperation.AVERAGE: 0,  # with one more fraction bit
    MergeOperation.SUBTRACT: 1,
    MergeOperation.MULTIPLY: 2,
    MergeOperation.MAXIMUM: 3,
    MergeOperation.MINIMUM: 4,
}


def concat_stage(name: str, layer: Concatenate, a: Stream, b: Stream, y: Stream) -> Stage:
    """rf_concat: turns of so many beats of a, then of b."""
    turns = int(np.prod(layer.y.shape[: layer.axis], dtype=np.int64))
    a_beats, b_beats = a.beats // turns, b.beats // turns
    parameters: dict[str, Value] = {"WIDTH": y.width, "A_BEATS": a_beats, "B_BEATS": b_beats}
    turn, place = np.divmod(np.arange(y.beats), a_beats + b_beats)
    from_a = turn * a_beats + np.minimum(place, a_beats - 1)
    # what b's turn waits for; a's turn behind it waits for that too, and a's first for nothing of b
    from_b = turn * b_beats + np.maximum(place - a_beats, -1)
    timing = Timing((from_a.astype(np.int64), from_b.astype(np.int64)), 1, 1, y.beats)
    return Stage(name, "rf_concat", layer.name, parameters, (a, b), (y,), timing)


def upsample_stage(name: str, layer: Upsample, x: Stream, y: Stream) -> Stage:
    """rf_upsample: two rows are kept."""
    (height, width, channels), (down, across) = layer.x.image, layer.factor
    beats = channels // x.lanes
    parameters: dict[str, Value] = {"WIDTH": x.width, "W": width, "BEATS": beats, "FACTOR_H": down, "FACTOR_W": across}
    index = np.arange(height * width * beats).reshape(height, 1, width, 1, beats)
    needs = np.broadcast_to(index, (height, down, width, across, beats)).reshape(-1)
    timing = Timing((np.maximum.accumulate(needs),), UPSAMPLE_CYCLES, 1, y.beats)
    bits = 2 * width * channels * x.precision.width
    return Stage(name, "rf_upsample", layer.name, parameters, (x,), (y,), timing, ram_bits=bits)


def pad_stage(name: str, layer: ZeroPad, x: Stream, y: Stream) -> Stage:
    """rf_pad: the zeros before an image wait for its first beat."""
    (height, width, channels), (top, bottom, left, right) = layer.x.image, layer.pad
    beats = channels // x.lanes
    parameters: dict[str, Value] = {
        "WIDTH": x.width, "H": height, "W": width, "BEATS": beats, "TOP": top, "BOTTOM": bottom, "LEFT": left, "RIGHT": right
    }  # fmt: skip
    inside = np.zeros((height + top + bottom, width + left + right, beats), dtype=np.int64)
    inside[top : top + height, left : left + width] = 1
    needs = np.maximum(np.cumsum(inside.reshape(-1)) - 1, 0)
    return Stage(name, "rf_pad", layer.name, parameters, (x,), (y,), Timing((needs,), 1, 1, y.beats))


def embed_stage(name: str, layer: Embedding, x: Stream, y: Stream) -> Stage:
    """rf_embed: one index a beat."""
    words, n_out = layer.table.raw.shape
    parameters: dict[str, Value] = {
        "X_WIDTH": x.precision.width, "VOCABULARY": words, "N_OUT": n_out, "LANES": y.lanes, "Y_WIDTH": y.precision.width,
        "TABLE_FILE": f"{name}.table.mem",
    }  # fmt: skip
    memory = Memory(f"{name}.table.mem", layer.table.raw.reshape(-1, y.lanes), (y.precision.width,))
    timing = Timing((parts(y.beats, n_out // y.lanes),), EMBED_CYCLES, 1, y.beats)
    return Stage(name, "rf_embed", layer.name, parameters, (x,), (y,), timing, (memory,))


def softmax_stage(name: str, layer: Softmax, x: Stream, y: Stream) -> Stage:
    """rf_softmax on each vector of the last dimension."""
    beats, levels = layer.x.channels // x.lanes, (x.lanes - 1).bit_length()
    to, accum = y.precision, layer.accum
    parameters: dict[str, Value] = {
        "N": layer.x.channels, "LANES": x.lanes, "IMPLEMENTATION": _IMPLEMENTATIONS[layer.kind],
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "Y_WIDTH": to.width, "Y_SIGNED": int(to.signed),
    }  # fmt: skip
    memories: tuple[Memory, ...] = ()
    if layer.kind is SoftmaxKind.ARGMAX:
        parameters["ONE"] = to.cast(1, 0)
    else:
        memories = _softmax_tables(name, layer)
        parameters |= {**_softmax_types(layer), "EXP_FILE": memories[0].file, "INVERSE_FILE": memories[1].file}
        parameters |= result_parameters(accum.fraction + layer.inv_table.fraction, to)
    latency = {
        SoftmaxKind.STABLE: 2 * levels + 25 + beats,
        SoftmaxKind.LATENCY: levels + 19,
        SoftmaxKind.ARGMAX: levels + 5,
    }[layer.kind]
    needs = np.repeat(np.arange(y.beats // beats) + 1, beats) * beats - 1
    timing = Timing((needs.astype(np.int64),), latency, 1, y.beats)
    multipliers = 0 if layer.kind is SoftmaxKind.ARGMAX else x.lanes
    return Stage(
        name, "rf_softmax", layer.name, parameters, (x,), (y,), timing, memories,
        multipliers=multipliers, multiplications=layer.y.size if multipliers else 0,
    )  # fmt: skip


_IMPLEMENTATIONS = {SoftmaxKind.LATENCY: 0, SoftmaxKind.STABLE: 2, SoftmaxKind.ARGMAX: 3}


def _softmax_tables(name: str, layer: Softmax) -> tuple[Memory, Memory]:
    """Exponentials as accum holds them, and inverses."""
    exp, accum = layer.exp_table, layer.accum
    words = np.array([[accum.cast(int(value), exp.fraction)] for value in exp.raw], dtype=np.int64)
    inverses = layer.inv_table.raw.reshape(-1, 1)
    return Memory(f"{name}.exp.mem", words, (accum.width,)), Memory(f"{name}.inverse.mem", inverses, (signed_width(inverses),))


def _softmax_types(layer: Softmax) -> dict[str, Value]:
    norm, accum, inverse = layer.normalised, layer.accum, layer.inverse_input
    return {
        "NORM_SHIFT": layer.x.precision.fraction - norm.fraction, "NORM_WIDTH": norm.width, "NORM_SIGNED": int(norm.signed),
        "NORM_ROUNDING": rounding(norm.rounding), "NORM_OVERFLOW": overflow(norm.overflow),
        "EXP_SIZE": len(layer.exp_table.raw),
        "ACC_WIDTH": accum.width, "ACC_SIGNED": int(accum.signed), "ACC_SATURATE": int(accum.overflow is not Overflow.WRAP),
        "INVERSE_SHIFT": accum.fraction - inverse.fraction, "INVERSE_WIDTH": inverse.width,
        "INVERSE_SIGNED": int(inverse.signed), "INVERSE_ROUNDING": rounding(inverse.rounding),
        "INVERSE_OVERFLOW": overflow(inverse.overflow), "INVERSE_SIZE": len(layer.inv_table.raw),
        "FACTOR_WIDTH": signed_width(layer.inv_table.raw), "FACTOR_SIGNED": 1,
    }  # fmt: skip
