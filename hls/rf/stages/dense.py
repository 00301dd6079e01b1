# SPDX-License-Identifier: Apache-2.0
"""Dense layers, and convolutions after rf_window, as rf_mac, or as rf_mac_stream if weights are read at run time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, FixedPoint, Rounding
from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.raw import cast_all, signed_width
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, memory_cost, roms_cost, tree_cost
from hypersonic.hls.rf.needs import divisors, vectors
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, product, shift
from hypersonic.hls.rf.parts.products import arithmetic, bias_memory, check_accumulator
from hypersonic.hls.rf.parts.windows import least_interval, window_order
from hypersonic.hls.rf.stage import Feed, Memory, Stage, Stream, Timing, Value, clocks_a_word
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, Sharing, StageType
from hypersonic.hls.rf.stages.window import add_window
from hypersonic.hls.weight_stream import WEIGHT_BITS

#: the places whose weights are read at run time
AT_RUN_TIME = (WeightsIn.DRAM, WeightsIn.URAM, WeightsIn.LOADED)
#: a memory's contents, (words, fields)
Words = NDArray[Any]


#: latency of rf_mac: clocks from the edge that accepts a vector's last beat to the first edge at which its first result can be
#: accepted, without the registers of the adder tree and of the vector buffer
MAC_CLOCKS = 9


# ---------------------------------------------------------------- multipliers
@dataclass(frozen=True)
class Shape:
    """An arrangement of multipliers: p inputs times q outputs per clock.

    Attributes:
        reuse_factor: clocks per vector.
    """

    p: int
    q: int
    reuse_factor: int


def dense_shapes(dense: Dense) -> Mapping[int, Shape]:
    """Return the possible shapes by reuse factor, the cheapest of those with the same one.

    An output costs an accumulator and a cast, an input an operand register; so few outputs are preferred to few inputs.
    """
    if dense.window is None:
        return matrix_shapes(dense.n_in, dense.n_out)
    return matrix_shapes(dense.n_in, dense.n_out, dense.window.kernel[0], dense.x.channels)


@cache
def matrix_shapes(n_in: int, n_out: int, kernel_rows: int = 1, channels: int = 0) -> dict[int, Shape]:
    """Return the same for a vector of n_in numbers times a matrix.

    Args:
        kernel_rows, channels: of a window's vectors.
    """
    lanes = channels or n_in
    inputs = [kernel_rows * each for each in divisors(lanes)]
    shapes = [Shape(p, q, (n_in // p) * (n_out // q)) for p in inputs for q in divisors(n_out)]
    cheapest: dict[int, Shape] = {}
    for shape in sorted(shapes, key=lambda shape: 3 * shape.q + shape.p):
        cheapest.setdefault(shape.reuse_factor, shape)
    return cheapest


def dense_shape(dense: Dense) -> Shape:
    """Return the shape whose clocks per vector are nearest to the reuse factor; of two equally near ones, the faster."""
    return nearest_shape(dense_shapes(dense), dense.reuse_factor)


def nearest_shape(shapes: Mapping[int, Shape], wanted: int) -> Shape:
    """Return the shape with the nearest reuse factor to the wanted one; of two equally near ones, the faster."""
    return min(shapes.values(), key=lambda shape: (abs(shape.reuse_factor - wanted), shape.reuse_factor))


def _choices(dense: Dense) -> dict[int, int]:
    kernel_rows = dense.window.kernel[0] if dense.window else 1

    def clocks(shape: Shape) -> int:
        seen = least_interval(dense.x, dense.window, shape.p // kernel_rows) if dense.window else 1
        return max(dense.vectors * shape.reuse_factor, seen)

    return {factor: clocks(shape) for factor, shape in dense_shapes(dense).items()}


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, dense: Dense) -> None:
    shape = dense_shape(dense)
    if dense.window is None:
        x = plan.with_lanes(plan.take(dense.x), shape.p, dense.name)
    else:
        x = add_window(plan, dense, dense.window, shape.p // dense.window.kernel[0])
    y = plan.result(dense, shape.q)
    name, widths = plan.stage_name(dense.name), plan.weight_widths
    if widths is None:
        weights, bias, width = _words(dense, x, y)
    else:
        weights, bias, width = _no_words(dense, x, y, widths[dense.name])
    plan.finish(dense, mac_stage(name, dense, x, y, weights, bias, width))


def _words(dense: Dense, x: Stream, y: Stream) -> tuple[Words, Words, int]:
    """Return the words of the weights' memory and of the bias', and the bits of a weight."""
    p, q = x.lanes, y.lanes
    blocks, groups = dense.n_in // p, dense.n_out // q
    order = np.arange(dense.n_in)
    if dense.window is not None:
        order = window_order(dense.x, dense.window, p // dense.window.kernel[0])
    blocked = dense.weight.raw.reshape(-1, dense.n_in, dense.n_out)[:, order].reshape(-1, blocks, p, groups, q)
    weights = blocked.transpose(0, 3, 1, 4, 2).reshape(-1, q * p)
    return weights, cast_all(dense.bias, dense.accum).reshape(-1, q), weight_width(dense)


def weight_width(dense: Dense) -> int:
    """Return the bits of a weight in the core."""
    return (dense.type_width if dense.weights_in in AT_RUN_TIME else 0) or signed_width(dense.weight.raw)


def _no_words(dense: Dense, x: Stream, y: Stream, width: int) -> tuple[Words, Words, int]:
    """Return the same for a sketch, with all words zero."""
    blocks, groups = dense.n_in // x.lanes, dense.n_out // y.lanes
    zero = np.zeros((), dtype=np.int64)  # one element, broadcast without copying
    weights = np.broadcast_to(zero, (dense.matrices * groups * blocks, y.lanes * x.lanes))
    return weights, np.broadcast_to(zero, (dense.biases * groups, y.lanes)), width


def mac_stage(name: str, dense: Dense, x: Stream, y: Stream, weights: Words, bias: Words, width: int) -> Stage:
    """Return the rf_mac stage, or rf_mac_stream if weights are read at run time.

    x.lanes inputs and y.lanes outputs are processed per clock.

    Args:
        weights: (words, x.lanes * y.lanes) and bias: (words, y.lanes), in the layout of the memories.
        width: bits of a weight.
    """
    p, q = x.lanes, y.lanes
    blocks, groups = dense.n_in // p, dense.n_out // q
    parameters: dict[str, Value] = {
        "N_IN": dense.n_in, "N_OUT": dense.n_out, "P": p, "Q": q, "MATRICES": dense.matrices, "BIASES": dense.biases,
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "W_WIDTH": width,
        **arithmetic(dense.x.precision, dense.weight, dense.accum, dense.y.precision),
    }  # fmt: skip
    held, start = Memory(f"{name}.weights.mem", weights, (width,)), bias_memory(f"{name}.bias.mem", bias, dense.accum)
    needs = vectors(dense.vectors, blocks, groups)
    product = parameters["X_WIDTH"], width, parameters["PRODUCT_SHIFT"], dense.accum
    latency = MAC_CLOCKS + tree_registers(p, *product) + (groups > 1)
    repeats = dense.weights_in is WeightsIn.DRAM
    gap = blocks * (clocks_a_word(held.width) if repeats else 1)
    comes = dense.weights_in in AT_RUN_TIME
    return Stage(
        name, "rf_mac_stream" if comes else "rf_mac", dense.name,
        {**parameters, **({"LOAD_WIDTH": WEIGHT_BITS} if comes else {"WEIGHTS": held.file, "BIAS": start.file})},
        (x,), (y,), Timing((needs,), latency, gap, dense.vectors * gap * groups),
        () if comes else (held, start),
        multipliers=p * q, multiplications=dense.vectors * dense.n_in * dense.n_out,
        ram_bits=2 * dense.n_in * x.precision.width if groups > 1 else 0,
        feed=Feed(held, repeats, ultra=dense.weights_in is WeightsIn.URAM) if comes else None,
        loaded=start if comes else None,
    )  # fmt: skip


def tree_registers(p: int, x_width: Value, w_width: int, shift: Value, accum: FixedPoint) -> int:
    """Return the register stages of rf_mac's adder tree for p products: one per two levels if sums are narrow, else one per
    level."""
    product, levels = int(x_width) + w_width, (p - 1).bit_length()
    right, left = min(max(int(shift), 0), product), max(-int(shift), 0)
    rounds = right > 0 and accum.rounding is Rounding.RND
    cut = product + 1 - right - (0 if rounds else int(right < product))
    kept = accum.width - left if accum.width > left else 1
    return -(-levels // 2) if min(cut + levels, kept) <= 24 else levels


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    memories = [*stage.memories, *([stage.loaded] if stage.loaded else [])]
    return mac_cost(numbers) + roms_cost(memory.shape for memory in memories)


def mac_cost(numbers: Numbers) -> Amounts:
    """Return the estimated resources of an rf_mac with these parameters, without its memories of weights and biases."""
    p, q, x = (numbers[key] for key in ("P", "Q", "X_WIDTH"))
    blocks, groups, accumulator = numbers["N_IN"] // p, numbers["N_OUT"] // q, numbers["ACC_WIDTH"]
    sums = Amounts(lut=accumulator, ff=accumulator + 2)
    output = tree_cost(numbers, p, every_level=False) + sums + cast_cost(accumulator, numbers)
    beat = memory_cost(2 << (blocks - 1).bit_length(), p * x) if groups > 1 else Amounts(ff=p * x)
    ends = flow_cost(q * numbers["Y_WIDTH"], 7 + (p - 1).bit_length())
    return output.times(q) + beat + ends + Amounts(lut=30, ff=30)


def _check(layer: Dense) -> None:
    bias = layer.bias.raw.reshape(-1, layer.n_out)
    for at, matrix in enumerate(layer.weight.raw.reshape(-1, layer.n_in, layer.n_out)):
        for row in bias[at % len(bias) :: layer.matrices]:
            constants = Constants(matrix, layer.weight.fraction), Constants(row, layer.bias.fraction)
            check_accumulator(layer.name, layer.x.precision, *constants, layer.accum)


STAGE = StageType(
    ("rf_mac", "rf_mac_stream"),
    _cost,
    (product, accumulator, shift),
    LayerPlan(
        Dense,
        _plan,
        check=_check,
        sharing=Sharing(lambda dense: dense_shape(dense).reuse_factor, lambda dense: dense.vectors, _choices),
    ),
)
