# SPDX-License-Identifier: Apache-2.0
"""Sums of products with constants, as hls4ml's C++ accumulates them; hls/da/cmvm.py factors the matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da.cmvm import factored
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, cast, plus, tree
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, shift_right

#: da4ml's solver stores weights as float32
_MAX_WEIGHT_BITS = 24
#: most products of a layer at all its positions; beyond that, a core would not fit a card, and writing it takes long
MAX_PRODUCTS = 1 << 18


@dataclass(frozen=True, eq=False)
class Matrix:
    """A layer's constants for one vector: weight (n_in, n_out), bias (n_out,), and the type of its sums."""

    name: str
    weight: Constants
    bias: Constants
    accum: FixedPoint


def dense(graph: AdderGraph, layer: Matrix, x: Sequence[Number]) -> list[Number]:
    """Return the numbers in the layer's accumulator, before the cast to its result."""
    weight, fraction = layer.weight.raw, layer.weight.fraction
    check_weights(layer.name, weight)
    bias = [layer.accum.cast(int(b), layer.bias.fraction) for b in layer.bias.raw]
    _check_saturation(graph, layer, x, bias)
    rounded = np.array([_loses_bits(graph, layer, number, row) for number, row in zip(x, weight, strict=True)])
    sums = matmul(graph, layer.name, x, np.where(rounded, 0, weight), fraction)
    if rounded.any():
        sums = _plus_rounded(graph, layer, x, np.where(rounded, weight, 0), [_in_accum(graph, y, layer.accum) for y in sums])
    totals = [plus(graph, y, b, layer.accum.fraction) for y, b in zip(sums, bias, strict=True)]
    return [_in_accum(graph, y, layer.accum) for y in totals]


def _in_accum(graph: AdderGraph, y: Number, accum: FixedPoint) -> Number:
    """A sum, in the accumulator's type. Nothing is rounded: the bits that it has beyond the accumulator's are zeros."""
    extra = max(y.fraction - accum.fraction, 0)
    wider = FixedPoint(accum.width + extra, accum.integer, accum.signed, accum.rounding, Overflow.WRAP)
    return cast(graph, y, wider)


def _loses_bits(graph: AdderGraph, layer: Matrix, x: Number, row: NDArray[np.int64]) -> list[bool]:
    """Whether the product of x with each weight of its row, (n_out,), has bits that the accumulator's type lacks."""
    lost, value = _lost_bits(layer, x), graph.value(x.node)
    if lost <= 0:
        return [False] * len(row)
    return [(int(w) * (1 if value is None else value)) & ((1 << lost) - 1) != 0 for w in row]


def _lost_bits(layer: Matrix, x: Number) -> int:
    return x.fraction + layer.weight.fraction - layer.accum.fraction


def _plus_rounded(
    graph: AdderGraph, layer: Matrix, x: Sequence[Number], weight: NDArray[np.int64], sums: list[Number]
) -> list[Number]:
    """The sums, each plus its products x[i] * weight[i, j], every one of them rounded to the accumulator's fraction bits.

    hls4ml rounds each product before it adds. A product of its own costs more adders than one inside a factored matrix.
    """
    terms = [[y] for y in sums]
    for number, row in zip(x, weight, strict=True):
        used = np.unique(row[row != 0])
        value, lost, products = graph.value(number.node), _lost_bits(layer, number), dict[int, int]()
        if value is not None:
            products = {int(w): graph.constant(int(w) * value) for w in used}
        elif len(used):
            products = dict(zip(used.tolist(), factored(graph, layer.name, [number.node], used[None]), strict=True))
        rounded = {w: Number(graph.drop(y, lost, layer.accum.rounding), layer.accum.fraction) for w, y in products.items()}
        for j in np.flatnonzero(row):
            terms[j].append(rounded[int(row[j])])
    return [tree(graph, numbers) for numbers in terms]


def check_count(layer: str, count: int) -> None:
    """Raise UnsupportedLayerError for a layer with more than MAX_PRODUCTS products.

    Args:
        layer: its name.
    """
    if count > MAX_PRODUCTS:
        raise UnsupportedLayerError(
            f"layer {layer!r}: unrolled it has {count} products, the da core takes up to {MAX_PRODUCTS}; {INSTEAD}"
        )


def check_weights(layer: str, weight: NDArray[np.int64]) -> None:
    """Raise UnsupportedLayerError for weights that the solver does not hold exactly."""
    magnitude = int(np.abs(weight).max(initial=0))
    if magnitude >= 1 << _MAX_WEIGHT_BITS:
        raise UnsupportedLayerError(
            f"layer {layer!r}: a weight has {magnitude.bit_length()} bits, the da core takes up to {_MAX_WEIGHT_BITS}; "
            "give the layer's weight (scale) a narrower precision"
        )


def _check_saturation(graph: AdderGraph, layer: Matrix, x: Sequence[Number], bias: list[int]) -> None:
    """Refuse a saturating accumulator that a partial sum, in hls4ml's order, can overflow; otherwise it is a plain sum."""
    if layer.accum.overflow is Overflow.WRAP:
        return
    low = np.array(bias, dtype=object)
    high = low.copy()
    for number, row in zip(x, layer.weight.raw, strict=True):
        ends = np.stack([row.astype(object) * end for end in graph.range(number.node)])
        lost, rounding = _lost_bits(layer, number), layer.accum.rounding
        products = np.array([[shift_right(int(p), lost, rounding) for p in end] for end in ends], dtype=object)
        low, high = low + products.min(axis=0), high + products.max(axis=0)
        if min(low.min(), products.min()) < layer.accum.least_raw or max(high.max(), products.max()) > layer.accum.max_raw:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: accum is {layer.accum} and a partial sum can overflow it, so the sum would depend on "
                f"its order; give accum more integer bits or AP_WRAP; {INSTEAD}"
            )


def matmul(graph: AdderGraph, layer: str, x: Sequence[Number], weight: NDArray[np.int64], fraction: int) -> list[Number]:
    """The n_out numbers x @ weight * 2**-fraction.

    Args:
        x: n_in numbers.
        weight: (n_in, n_out) int64.
    """
    finest = max(number.fraction for number in x)
    aligned = np.array([[int(w) << (finest - number.fraction) for w in row] for number, row in zip(x, weight, strict=True)])
    varying = [i for i, number in enumerate(x) if graph.value(number.node) is None]
    fixed = [sum(int(aligned[i, j]) * int(graph.value(x[i].node) or 0) for i in range(len(x))) for j in range(weight.shape[1])]
    sums = (
        factored(graph, layer, [x[i].node for i in varying], aligned[varying]) if varying else [graph.constant(0)] * len(fixed)
    )
    return [plus(graph, Number(y, finest + fraction), f, finest + fraction) for y, f in zip(sums, fixed, strict=True)]
