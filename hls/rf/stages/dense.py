# SPDX-License-Identifier: Apache-2.0
"""Dense, convolutions and depthwise convolutions as rf_window, rf_mac and rf_depthwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, Precision, Rounding
from hypersonic.hls.rf.layers import Dense, Depthwise, WeightsIn
from hypersonic.hls.rf.parts.attributes import accumulator_bias
from hypersonic.hls.rf.parts.casts import accumulator_parameters, result_parameters, signed_width
from hypersonic.hls.rf.parts.needs import groups as beats_together
from hypersonic.hls.rf.parts.needs import vectors
from hypersonic.hls.rf.stage import Feed, Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.top.weights import clocks_a_word

#: a memory's contents, (words, fields)
Words = NDArray[Any]

#: rf_mac: from the edge that takes a vector's last beat to the first at which its first result can be taken, but for the
#: registers of the adder tree and the one of the vector buffer
MAC_CYCLES = 9
DEPTHWISE_CYCLES = 9


def mac_stage(name: str, dense: Dense, x: Stream, y: Stream, order: NDArray[np.int64]) -> Stage:
    """rf_mac with P = x.lanes inputs and Q = y.lanes outputs a clock. order: weight rows in the order of the vector's beats."""
    p, q = x.lanes, y.lanes
    blocks, groups = dense.n_in // p, dense.n_out // q
    weights = dense.weight.raw[order].reshape(blocks, p, groups, q).transpose(2, 0, 3, 1).reshape(groups * blocks, q * p)
    bias = accumulator_bias(dense.bias, dense.accum).raw.reshape(groups, q)
    return mac_around(name, dense, x, y, weights, bias, signed_width(dense.weight.raw))


def mac_around(name: str, dense: Dense, x: Stream, y: Stream, weights: Words, bias: Words, width: int) -> Stage:
    """rf_mac with its memories' words, as they are there, or rf_mac_stream where they come at run time. width: of a weight."""
    p, q = x.lanes, y.lanes
    blocks, groups = dense.n_in // p, dense.n_out // q
    parameters: dict[str, Value] = {
        "N_IN": dense.n_in, "N_OUT": dense.n_out, "P": p, "Q": q,
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "W_WIDTH": width,
        **_arithmetic(dense.x.precision, dense.weight, dense.accum, dense.y.precision),
        "BIAS": f"{name}.bias.mem",
    }  # fmt: skip
    held, bias_memory = Memory(f"{name}.weights.mem", weights, (width,)), _bias(f"{name}.bias.mem", bias, dense.accum)
    needs = vectors(dense.vectors, blocks, groups)
    product = parameters["X_WIDTH"], width, parameters["PRODUCT_SHIFT"], dense.accum
    latency = MAC_CYCLES + tree_registers(p, *product) + (groups > 1)
    repeats = dense.weights_in is WeightsIn.DRAM
    gap = blocks * (clocks_a_word(held.width) if repeats else 1)
    comes = repeats or dense.weights_in is WeightsIn.URAM
    return Stage(
        name, "rf_mac_stream" if comes else "rf_mac", dense.name,
        parameters if comes else {**parameters, "WEIGHTS": held.file},
        (x,), (y,), Timing((needs,), latency, gap, dense.vectors * gap * groups),
        (bias_memory,) if comes else (held, bias_memory),
        multipliers=p * q, multiplications=dense.vectors * dense.n_in * dense.n_out,
        ram_bits=2 * dense.n_in * x.precision.width if groups > 1 else 0,
        feed=Feed(held, repeats) if comes else None,
    )  # fmt: skip


def tree_registers(p: int, x_width: Value, w_width: int, shift: Value, accum: Precision) -> int:
    """Registers of rf_mac's adder tree: one every two levels where sums are narrow, else one a level."""
    product, levels = int(x_width) + w_width, (p - 1).bit_length()
    right, left = min(max(int(shift), 0), product), max(-int(shift), 0)
    rounds = right > 0 and accum.rounding is Rounding.RND
    cut = product + 1 - right - (0 if rounds else int(right < product))
    kept = accum.width - left if accum.width > left else 1
    return -(-levels // 2) if min(cut + levels, kept) <= 24 else levels


def depthwise_stage(name: str, layer: Depthwise, x: Stream, y: Stream) -> Stage:
    """rf_depthwise behind a window of the same lanes."""
    lanes, channels, seen = y.lanes, layer.x.channels, layer.window
    width = signed_width(layer.weight.raw)
    rows, columns = seen.kernel
    weights = layer.weight.raw.reshape(rows, columns, channels // lanes, lanes).transpose(2, 1, 0, 3)
    parameters: dict[str, Value] = {
        "LANES": lanes, "K_H": rows, "K_W": columns, "CHANNEL_BEATS": channels // lanes,
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "W_WIDTH": width,
        **_arithmetic(layer.x.precision, layer.weight, layer.accum, layer.y.precision),
        "WEIGHTS": f"{name}.weights.mem", "BIAS": f"{name}.bias.mem",
    }  # fmt: skip
    memories = (
        Memory(f"{name}.weights.mem", weights.reshape(-1, rows * lanes), (width,)),
        _bias(f"{name}.bias.mem", accumulator_bias(layer.bias, layer.accum).raw.reshape(channels // lanes, lanes), layer.accum),
    )
    timing = Timing((beats_together(y.beats, columns),), DEPTHWISE_CYCLES + (rows - 1).bit_length(), columns, x.beats)
    multiplications = layer.y.size * seen.size
    return Stage(
        name, "rf_depthwise", layer.name, parameters, (x,), (y,), timing, memories,
        multipliers=rows * lanes, multiplications=multiplications,
    )  # fmt: skip


def _arithmetic(x: Precision, weight: Constants, accum: Precision, y: Precision) -> dict[str, Value]:
    return {**accumulator_parameters(x.fraction + weight.fraction, accum), **result_parameters(accum.fraction, y)}


def _bias(file: str, raw: Words, accum: Precision) -> Memory:
    return Memory(file, raw if accum.width > 62 else raw.astype(np.int64), (accum.width,))
