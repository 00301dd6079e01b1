# SPDX-License-Identifier: Apache-2.0
"""Dense layers, and convolutions after rf_window, as rf_mac, or as rf_mac_stream if weights are read at run time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, FixedPoint, Rounding
from hypersonic.hls.model_graph import precision_of
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import cast_cost, dsps, flow_cost, memory_cost, roms_cost
from hypersonic.hls.rf.layers import Products, Tensor, WeightsIn, Window
from hypersonic.hls.rf.needs import divisors, vectors
from hypersonic.hls.rf.parts.attributes import constants, precision, refuse, streamed, window
from hypersonic.hls.rf.parts.binary import binary_sums, reads_bits
from hypersonic.hls.rf.parts.casts import signed_width
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, product, shift
from hypersonic.hls.rf.parts.maps import Map, linear
from hypersonic.hls.rf.parts.products import (
    accumulator_bias,
    arithmetic,
    bias_memory,
    check_accumulator,
    check_one_row,
    check_strategy,
    reuse,
    tree_cost,
)
from hypersonic.hls.rf.parts.windows import least_interval, window_order
from hypersonic.hls.rf.stage import Feed, Memory, Stage, Stream, Timing, Value, clocks_a_word
from hypersonic.hls.rf.stage_type import LayerType, Planner, Sharing, StageType
from hypersonic.hls.rf.stages.permute import Permute, transposed_places
from hypersonic.hls.rf.stages.window import add_window
from hypersonic.hls.weight_stream import WEIGHT_BITS

#: the places whose weights are read at run time
AT_RUN_TIME = (WeightsIn.DRAM, WeightsIn.URAM, WeightsIn.LOADED)
#: a memory's contents, (words, fields)
Words = NDArray[Any]


#: latency of rf_mac: clocks from the edge that accepts a vector's last beat to the first edge at which its first result can be
#: accepted, without the registers of the adder tree and of the vector buffer
MAC_CLOCKS = 9


@dataclass(frozen=True, eq=False)
class Dense(Products):
    """Each vector of n_in numbers becomes n_out:  y[j] = result(accum(bias[j]) + sum_i accum(x[i] * weight[i][j])).

    Sources: nnet_dense_latency.h, nnet_dense_resource.h (all three forms; hls4ml transposes the weights for Strategy Resource,
    _product transposes them back), nnet_conv1d/2d_latency.h, _resource.h, _stream.h and pointwise_conv. A convolution applies
    it to each window, with the elements of the vector in the order (kernel row, kernel column, channel). Without a window, n_in
    is the last dimension of x, so that a Dense on (L, C) is applied to each of L vectors.

    type_width: bits of a weight's declared type, as two's complement; 0 if the numbers are not in it. In a core that reads the
    weights at run time they have that width, so that other numbers of the type fit the same core; otherwise the fewest bits.

    weight: (n_in, n_out), or (matrices, n_in, n_out): vector v has number v % matrices. bias: (n_out,), or (biases, n_out).
    """

    window: Window | None = None
    weights_in: WeightsIn = WeightsIn.BRAM
    type_width: int = 0

    @property
    def n_in(self) -> int:
        """Number of inputs of a vector."""
        return int(self.weight.raw.shape[-2])

    @property
    def n_out(self) -> int:
        """Number of outputs of a vector."""
        return int(self.weight.raw.shape[-1])

    @property
    def matrices(self) -> int:
        """Number of matrices of weights, which the vectors of a row take in turn."""
        return int(self.weight.raw.size) // (self.n_in * self.n_out)

    @property
    def biases(self) -> int:
        """Number of vectors of biases, which the vectors of a row take in turn."""
        return int(self.bias.raw.size) // self.n_out

    @property
    def vectors(self) -> int:
        """Number of vectors per row."""
        return self.y.size // self.n_out


# ---------------------------------------------------------------- in hls4ml's graph
def weight_places(layer: Any, flat: Constants, name: str = "weight") -> tuple[WeightsIn, int]:
    """Return a Dense's weights_in, the YAML's WeightsIn (hls/frontend/settings.py), and type_width.

    flat: the numbers of `name`.
    """
    kind = precision_of(layer.weights[name].type.precision, f"layer {layer.name!r}: {name}")
    width = kind.width + (not kind.signed)
    typed = kind.fraction == flat.fraction and signed_width(flat.raw) <= width
    return WeightsIn(str(layer.get_attr("weights_in", WeightsIn.BRAM))), width if typed else 0


def _product(layer: Any, x: Tensor, y: Tensor, shape: tuple[int, int]) -> Dense:
    transposed = check_strategy(layer)
    flat = constants(layer, "weight")
    raw = flat.raw.reshape(shape[::-1]).T if transposed else flat.raw.reshape(shape)
    weight, bias, accum = Constants(raw, flat.fraction), constants(layer, "bias"), precision(layer, "accum_t")
    check_accumulator(layer, x.precision, weight, bias, accum)
    places, width = weight_places(layer, flat)
    return Dense(layer.name, x, y, weight, bias, accum, *reuse(layer), weights_in=places, type_width=width)


def _einsum_dense(layer: Any, x: Tensor, y: Tensor) -> tuple[Permute, Dense, Permute]:
    """Read hls4ml's EinsumDense: a Dense between two transpositions (nnet_einsum_dense.h).

    hls4ml counts vectors by the axes that the weights have too (`in place`), then by the others (`free`); here the former
    are the inner ones, so that the vectors take the matrices in turn.
    """
    names = ("n_inplace", "n_free_data", "n_free_kernel", "n_contract")
    matrices, free, out, terms = (int(layer.get_attr(name)) for name in names)
    if check_strategy(layer):
        raise refuse(layer, "its Strategy is Resource, expected Latency")
    flat, rows = constants(layer, "weight"), constants(layer, "bias")
    weight, accum = Constants(flat.raw.reshape(matrices, terms, out), flat.fraction), precision(layer, "accum_t")
    turns = rows.raw.reshape(matrices, free, out).swapaxes(0, 1)
    if (turns == turns[:1]).all():
        turns = turns[:1]
    for turn in turns:
        for matrix, row in zip(weight.raw, turn, strict=True):
            check_accumulator(layer, x.precision, Constants(matrix, flat.fraction), Constants(row, rows.fraction), accum)
    bias = Constants(turns.reshape(-1, out), rows.fraction)
    vectors = Tensor(f"{layer.name}_vectors", (free * matrices, terms), x.precision)
    sums = Tensor(f"{layer.name}_sums", (free * matrices, out), y.precision)
    turned = np.arange(sums.size).reshape(free, matrices, out).swapaxes(0, 1).reshape(-1)
    given = transposed_places(layer, "inp_shape", "inp_tpose_idxs").reshape(matrices, free, terms).swapaxes(0, 1).reshape(-1)
    return (
        Permute(layer.name, x, vectors, given),
        Dense(layer.name, vectors, sums, weight, bias, accum, *reuse(layer), None, *weight_places(layer, flat)),
        Permute(layer.name, sums, y, turned[transposed_places(layer, "out_interpert_shape", "out_tpose_idxs")]),
    )


#: hls4ml's names of layers that are read as a convolution
_CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv2DBatchnorm", "PointwiseConv1D", "PointwiseConv2D")


def _dense(layer: Any, x: Tensor, y: Tensor) -> Dense | tuple[Dense, Map]:
    dense = _product(layer, x, y, (int(layer.get_attr("n_in")), int(layer.get_attr("n_out"))))
    return _of_bits(layer, dense) if reads_bits(layer) else dense


def _of_bits(layer: Any, dense: Dense) -> Dense | tuple[Dense, Map]:
    """Return the product for an input of hls4ml's XNOR type, with a cast behind it if the C++ has one."""
    weight, bias, accum, counted = binary_sums(layer, dense.weight, dense.bias, dense.accum)
    dense = replace(dense, weight=weight, bias=bias, accum=accum, type_width=0)
    if counted is None:
        return dense
    count = Tensor(f"{layer.name}_count", dense.y.shape, counted)
    return replace(dense, y=count), linear(layer.name, count, dense.y)


def _convolution(layer: Any, x: Tensor, y: Tensor) -> Dense | tuple[Dense, Map]:
    seen = window(layer, "filt")
    dense = _product(layer, x, y, (seen.size * x.channels, y.channels))
    check_one_row(layer, seen)
    taken = int(layer.get_attr("reuse_factor") or 1)
    if not streamed(layer) and str(layer.get_attr("strategy")).lower() == "resource" and dense.n_in % taken:
        raise refuse(
            layer,
            f"ReuseFactor is {taken} with Strategy Resource in io_parallel, whose C++ is right for divisors of "
            f"{dense.n_in} alone; take one of them, Strategy Latency, or io_stream",
        )
    dense = dense if seen.is_pixel else replace(dense, window=seen)
    return _of_bits(layer, dense) if reads_bits(layer) else dense


# ---------------------------------------------------------------- multipliers
@dataclass(frozen=True)
class Shape:
    """An arrangement of multipliers: p inputs times q outputs per clock. reuse_factor: clocks per vector."""

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
    """Return the same for a vector of n_in numbers times a matrix. kernel_rows, channels: of a window's vectors."""
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
    return weights, accumulator_bias(dense.bias, dense.accum).raw.reshape(-1, q), weight_width(dense)


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

    x.lanes inputs and y.lanes outputs are processed per clock. weights: (words, x.lanes * y.lanes) and bias: (words, y.lanes),
    in the layout of the memories. width: bits of a weight.
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
    p, q, x, w = (numbers[key] for key in ("P", "Q", "X_WIDTH", "W_WIDTH"))
    blocks, groups, accumulator = numbers["N_IN"] // p, numbers["N_OUT"] // q, numbers["ACC_WIDTH"]
    dsp = dsps(x + (not numbers.get("X_SIGNED", 1)), w)
    output = (
        tree_cost(numbers, p, every_level=False) + Amounts(lut=accumulator, ff=accumulator) + cast_cost(accumulator, numbers)
    )
    # includes the products: Yosys leaves their registers outside the DSP48E2
    operands = Amounts(ff=p * q * (x + 2 * w) + p * x * (2 if groups == 1 else 1), dsp=p * q * dsp)
    vectors = memory_cost(2 << (blocks - 1).bit_length(), p * x) if groups > 1 else NOTHING
    ends = flow_cost(q * numbers["Y_WIDTH"], 7 + (p - 1).bit_length())
    return output.times(q) + operands + vectors + ends + Amounts(lut=30, ff=30)


STAGE = StageType(
    ("rf_mac", "rf_mac_stream"),
    _cost,
    (product, accumulator, shift),
    LayerType(
        Dense,
        _plan,
        readers={"Dense": _dense, "EinsumDense": _einsum_dense, **dict.fromkeys(_CONVOLUTIONS, _convolution)},
        sharing=Sharing(lambda dense: dense_shape(dense).reuse_factor, lambda dense: dense.vectors, _choices),
    ),
)
