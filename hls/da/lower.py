# SPDX-License-Identifier: Apache-2.0
"""Turns a Network into a graph of adders (distributed arithmetic). hls/da/cmvm.py factors the constant matrices.

Everything around the matrices (rounding, overflow, relu, biases) follows hls4ml's C++.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da.cmvm import BLOCK, factored
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.network import Activation, Concatenation, Dense, Layer, Merge, MergeOperation, Network, Scaling
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import FixedPoint, Overflow, shift_right

#: da4ml's solver stores weights as float32
_MAX_WEIGHT_BITS = 24


@dataclass(frozen=True)
class Number:
    """The number node * 2**-fraction. node: its index in the graph."""

    node: int
    fraction: int


#: the elements of one tensor
Numbers = tuple[Number, ...]


def adder_graph(network: Network, progress: Callable[[str], None] = lambda _: None) -> AdderGraph:
    """Return the whole network as one graph from raw inputs to raw outputs, the elements of all tensors in order.

    progress: called with a line for each matrix larger than a block (hls/da/cmvm.py).
    Raises UnsupportedLayerError, with the layer's name, for arithmetic that adders cannot do exactly.
    """
    graph = AdderGraph()
    numbers: dict[str, Numbers] = {}
    index = count()
    for source in network.inputs:
        low, high = source.result.min_raw, source.result.max_raw
        numbers[source.name] = tuple(
            Number(graph.input(next(index), low, high), source.result.fraction) for _ in range(source.size)
        )
    for layer in network.layers:
        _check_overflow(layer)
        if isinstance(layer, Dense) and max(shape := layer.weight.raw.shape) > BLOCK:
            progress(f"factoring layer {layer.name}, {' x '.join(map(str, shape))} weights")
        numbers[layer.name] = tuple(cast(graph, y, layer.result) for y in _apply(graph, layer, numbers))
    outputs = [y for name in network.outputs for y in numbers[name]]
    types = network.output_types
    return graph.finished(tuple(graph.shift(y.node, to.fraction - y.fraction) for y, to in zip(outputs, types, strict=True)))


def _apply(graph: AdderGraph, layer: Layer, numbers: dict[str, Numbers]) -> Iterable[Number]:
    """The layer's numbers before they are cast to its result type. They may be computed lazily, one by one."""
    match layer:
        case Dense():
            return _dense(graph, layer, numbers[layer.source])
        case Scaling():
            return _scaling(graph, layer, numbers[layer.source])
        case Activation(_, source, relu):
            return (_relu(graph, y) if relu else y for y in numbers[source])
        case Merge(_, (a, b), operation):
            return (_merge(graph, operation, x, y) for x, y in zip(numbers[a], numbers[b], strict=True))
        case Concatenation(_, (a, b), (run_a, run_b)):
            turns = zip(_runs(numbers[a], run_a), _runs(numbers[b], run_b), strict=True)
            return [y for left, right in turns for y in (*left, *right)]


def _runs(numbers: Numbers, length: int) -> Iterable[Numbers]:
    return (numbers[at : at + length] for at in range(0, len(numbers), length))


def _relu(graph: AdderGraph, x: Number) -> Number:
    return Number(graph.clamp(x.node, 0, None), x.fraction)


def _merge(graph: AdderGraph, operation: MergeOperation, a: Number, b: Number) -> Number:
    """The merge of two numbers. The maximum is b + relu(a - b), the minimum a - relu(a - b)."""
    match operation:
        case MergeOperation.ADD:
            return _sum(graph, a, b)
        case MergeOperation.SUBTRACT:
            return _sum(graph, a, b, subtract=True)
        case MergeOperation.AVERAGE:
            total = _sum(graph, a, b)
            return Number(total.node, total.fraction + 1)
        case MergeOperation.MAXIMUM | MergeOperation.MINIMUM:
            above = _relu(graph, _sum(graph, a, b, subtract=True))
            least = operation is MergeOperation.MINIMUM
            before = len(graph.nodes)
            y = _sum(graph, a if least else b, above, subtract=least)
            if len(graph.nodes) > before:
                ends = [[end << (y.fraction - x.fraction) for end in graph.range(x.node)] for x in (a, b)]
                pick = min if least else max
                graph.narrow(y.node, *map(pick, *ends))
            return y


def _sum(graph: AdderGraph, a: Number, b: Number, *, subtract: bool = False) -> Number:
    """a + b (or a - b), exactly."""
    common = max(a.fraction, b.fraction)
    return Number(graph.add(a.node, b.node, common - a.fraction, common - b.fraction, subtract=subtract), common)


def cast(graph: AdderGraph, x: Number, to: FixedPoint) -> Number:
    """Return x as assigned to a variable of type `to`. Where nothing can overflow, trailing zero bits are not added."""
    node = graph.drop(x.node, x.fraction - to.fraction, to.rounding) if x.fraction > to.fraction else x.node
    fraction = min(x.fraction, to.fraction)
    low, high = graph.range(node)
    missing = to.fraction - fraction
    if to.least_raw <= low << missing and high << missing <= to.max_raw:
        return Number(node, fraction)
    if to.overflow is Overflow.WRAP:
        return Number(graph.wrap(node, to.width - missing, signed=to.signed), fraction)
    return Number(graph.clamp(graph.shift(node, missing), to.least_raw, to.max_raw), to.fraction)


def _check_overflow(layer: Layer) -> None:
    """Refuse SAT_ZERO: an overflow to zero cannot be computed with a clamp."""
    types = (layer.accum, layer.result) if isinstance(layer, Dense) else (layer.result,)
    for to in types:
        if to.overflow is Overflow.SAT_ZERO:
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: {to} overflows to zero, which the da core does not support; use SAT or WRAP; {INSTEAD}"
            )


def _dense(graph: AdderGraph, layer: Dense, x: tuple[Number, ...]) -> list[Number]:
    weight, fraction = layer.weight.raw, layer.weight.fraction
    _check_weights(layer.name, weight)
    bias = [layer.accum.cast(int(b), layer.bias.fraction) for b in layer.bias.raw]
    _check_saturation(graph, layer, x, bias)
    rounded = np.array([_loses_bits(graph, layer, number, row) for number, row in zip(x, weight, strict=True)])
    sums = _matmul(graph, layer.name, x, np.where(rounded, 0, weight), fraction)
    if rounded.any():
        sums = _plus_rounded(graph, layer, x, np.where(rounded, weight, 0), [_in_accum(graph, y, layer.accum) for y in sums])
    totals = [_plus(graph, y, b, layer.accum.fraction) for y, b in zip(sums, bias, strict=True)]
    return [_in_accum(graph, y, layer.accum) for y in totals]


def _in_accum(graph: AdderGraph, y: Number, accum: FixedPoint) -> Number:
    """A sum, in the accumulator's type. Nothing is rounded: the bits that it has beyond the accumulator's are zeros."""
    extra = max(y.fraction - accum.fraction, 0)
    wider = FixedPoint(accum.width + extra, accum.integer, accum.signed, accum.rounding, Overflow.WRAP)
    return cast(graph, y, wider)


def _loses_bits(graph: AdderGraph, layer: Dense, x: Number, row: NDArray[np.int64]) -> list[bool]:
    """Whether the product of x with each weight of its row, (n_out,), has bits that the accumulator's type has not."""
    lost, value = _lost_bits(layer, x), graph.value(x.node)
    if lost <= 0:
        return [False] * len(row)
    return [(int(w) * (1 if value is None else value)) & ((1 << lost) - 1) != 0 for w in row]


def _lost_bits(layer: Dense, x: Number) -> int:
    return x.fraction + layer.weight.fraction - layer.accum.fraction


def _plus_rounded(
    graph: AdderGraph, layer: Dense, x: tuple[Number, ...], weight: NDArray[np.int64], sums: list[Number]
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
    return [_total(graph, numbers) for numbers in terms]


def _total(graph: AdderGraph, terms: Sequence[Number]) -> Number:
    """The sum of the terms, exactly, as a balanced tree."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return _sum(graph, _total(graph, terms[:half]), _total(graph, terms[half:]))


def _scaling(graph: AdderGraph, layer: Scaling, x: tuple[Number, ...]) -> list[Number]:
    _check_weights(layer.name, layer.scale.raw)
    products = [
        _matmul(graph, layer.name, (number,), np.array([[scale]]), layer.scale.fraction)[0]
        for number, scale in zip(x, layer.scale.raw, strict=True)
    ]
    return [_plus(graph, y, int(b), layer.bias.fraction) for y, b in zip(products, layer.bias.raw, strict=True)]


def _plus(graph: AdderGraph, x: Number, raw: int, fraction: int) -> Number:
    """x + raw * 2**-fraction, exactly."""
    zeros = (raw & -raw).bit_length() - 1 if raw else 0
    raw, fraction = (raw >> zeros, fraction - zeros) if raw else (0, x.fraction)
    common = max(x.fraction, fraction)
    return Number(graph.add(x.node, graph.constant(raw), common - x.fraction, common - fraction), common)


def _check_weights(layer: str, weight: NDArray[np.int64]) -> None:
    magnitude = int(np.abs(weight).max(initial=0))
    if magnitude >= 1 << _MAX_WEIGHT_BITS:
        raise UnsupportedLayerError(
            f"layer {layer!r}: a weight has {magnitude.bit_length()} bits, the da core takes up to {_MAX_WEIGHT_BITS}; "
            "give the layer's weight (scale) a narrower precision"
        )


def _check_saturation(graph: AdderGraph, layer: Dense, x: tuple[Number, ...], bias: list[int]) -> None:
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


def _matmul(graph: AdderGraph, layer: str, x: Sequence[Number], weight: NDArray[np.int64], fraction: int) -> list[Number]:
    """The n_out numbers x @ weight * 2**-fraction. x: n_in numbers. weight: (n_in, n_out) int64."""
    finest = max(number.fraction for number in x)
    aligned = np.array([[int(w) << (finest - number.fraction) for w in row] for number, row in zip(x, weight, strict=True)])
    varying = [i for i, number in enumerate(x) if graph.value(number.node) is None]
    fixed = [sum(int(aligned[i, j]) * int(graph.value(x[i].node) or 0) for i in range(len(x))) for j in range(weight.shape[1])]
    sums = (
        factored(graph, layer, [x[i].node for i in varying], aligned[varying]) if varying else [graph.constant(0)] * len(fixed)
    )
    return [_plus(graph, Number(y, finest + fraction), f, finest + fraction) for y, f in zip(sums, fixed, strict=True)]
