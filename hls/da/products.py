# SPDX-License-Identifier: Apache-2.0
"""Sums of products with constants, as hls4ml's C++ accumulates them; hls/da/cmvm.py factors the matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da.cmvm import factored
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.network import Dense
from hypersonic.hls.da.numbers import Number, cast, plus
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import FixedPoint, Overflow

#: da4ml's solver stores weights as float32
_MAX_WEIGHT_BITS = 24


def dense(graph: AdderGraph, layer: Dense, x: Sequence[Number]) -> list[Number]:
    """Return the numbers in the layer's accumulator, before the cast to its result."""
    weight, fraction = layer.weight.raw, layer.weight.fraction
    check_weights(layer.name, weight)
    _check_products(graph, layer, x)
    sums = matmul(graph, layer.name, x, weight, fraction)
    bias = [layer.accum.cast(int(b), layer.bias.fraction) for b in layer.bias.raw]
    _check_saturation(graph, layer, x, bias)
    totals = [plus(graph, y, b, layer.accum.fraction) for y, b in zip(sums, bias, strict=True)]
    return [_in_accum(graph, y, layer.accum) for y in totals]


def _in_accum(graph: AdderGraph, y: Number, accum: FixedPoint) -> Number:
    """A sum, in the accumulator's type. Nothing is rounded: _check_products has refused products with more fraction bits."""
    extra = max(y.fraction - accum.fraction, 0)
    wider = FixedPoint(accum.width + extra, accum.integer, accum.signed, accum.rounding, Overflow.WRAP)
    return cast(graph, y, wider)


def check_weights(layer: str, weight: NDArray[np.int64]) -> None:
    """Raise UnsupportedLayerError for weights that the solver does not hold exactly."""
    magnitude = int(np.abs(weight).max(initial=0))
    if magnitude >= 1 << _MAX_WEIGHT_BITS:
        raise UnsupportedLayerError(
            f"layer {layer!r}: a weight has {magnitude.bit_length()} bits, the da core takes up to {_MAX_WEIGHT_BITS}; "
            "give the layer's weight (scale) a narrower precision"
        )


def _check_products(graph: AdderGraph, layer: Dense, x: Sequence[Number]) -> None:
    """Refuse products that need rounding: hls4ml rounds each one to the accumulator's type, which shared adders cannot do."""
    for number, row in zip(x, layer.weight.raw, strict=True):
        fraction = number.fraction + layer.weight.fraction
        lost = fraction - layer.accum.fraction
        value = graph.value(number.node)
        lowest = int(np.bitwise_or.reduce(row)) * (1 if value is None else value)
        if lost > 0 and lowest & ((1 << lost) - 1):
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: accum is {layer.accum}, {layer.accum.fraction} fraction bits, and its products have "
                f"{fraction}: hls4ml rounds each product, which the da core cannot do; set the layer's accum precision to "
                f"'auto'; {INSTEAD}"
            )


def _check_saturation(graph: AdderGraph, layer: Dense, x: Sequence[Number], bias: list[int]) -> None:
    """Refuse a saturating accumulator that a partial sum, in hls4ml's order, can overflow; otherwise it is a plain sum."""
    if layer.accum.overflow is Overflow.WRAP:
        return
    low = np.array(bias, dtype=object)
    high = low.copy()
    for number, row in zip(x, layer.weight.raw, strict=True):
        ends = np.stack([row.astype(object) * end for end in graph.range(number.node)])
        lost = number.fraction + layer.weight.fraction - layer.accum.fraction
        products = np.array([[shift_exact(int(p), lost) for p in end] for end in ends], dtype=object)
        low, high = low + products.min(axis=0), high + products.max(axis=0)
        if min(low.min(), products.min()) < layer.accum.least_raw or max(high.max(), products.max()) > layer.accum.max_raw:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: accum is {layer.accum} and a partial sum can overflow it, so the sum would depend on "
                f"its order; give accum more integer bits or AP_WRAP; {INSTEAD}"
            )


def shift_exact(value: int, bits: int) -> int:
    """Return value * 2**-bits, for a value whose `bits` lowest bits are zero; negative `bits` shift left."""
    return value >> bits if bits > 0 else value << -bits


def matmul(graph: AdderGraph, layer: str, x: Sequence[Number], weight: NDArray[np.int64], fraction: int) -> list[Number]:
    """The n_out numbers x @ weight * 2**-fraction. x: n_in numbers. weight: (n_in, n_out) int64."""
    finest = max(number.fraction for number in x)
    aligned = np.array([[int(w) << (finest - number.fraction) for w in row] for number, row in zip(x, weight, strict=True)])
    varying = [i for i, number in enumerate(x) if graph.value(number.node) is None]
    fixed = [sum(int(aligned[i, j]) * int(graph.value(x[i].node) or 0) for i in range(len(x))) for j in range(weight.shape[1])]
    sums = (
        factored(graph, layer, [x[i].node for i in varying], aligned[varying]) if varying else [graph.constant(0)] * len(fixed)
    )
    return [plus(graph, Number(y, finest + fraction), f, finest + fraction) for y, f in zip(sums, fixed, strict=True)]
