# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers in an adder graph: a node and its binary point, and the operations on them that follow ap_fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.fixed import FixedPoint, Overflow
from hypersonic.hls.network.layers.merge import MergeOperation


@dataclass(frozen=True)
class Number:
    """The number node * 2**-fraction.

    Attributes:
        node: its index in the graph.
    """

    node: int
    fraction: int


#: the elements of one tensor
Numbers = tuple[Number, ...]


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
    shifted = graph.shift(node, missing)
    if to.overflow is Overflow.SAT_ZERO:
        return Number(_or_zero(graph, shifted, to.least_raw, to.max_raw), to.fraction)
    return Number(graph.clamp(shifted, to.least_raw, to.max_raw), to.fraction)


def _or_zero(graph: AdderGraph, x: int, low: int, high: int) -> int:
    """The node of x, or 0 if x is not in low..high: x minus itself where its distance to a bound is negative."""
    y = x
    for bound, below in ((low, True), (high, False)):
        a, b = (x, graph.constant(bound)) if below else (graph.constant(bound), x)
        rest = graph.add(a, b, subtract=True)
        before = len(graph.nodes)
        y = graph.add(y, graph.select(x, rest, graph.nodes[rest].width - 1), subtract=True)
    if y >= before:
        graph.narrow(y, min(low, 0), max(high, 0))
    return y


def total(graph: AdderGraph, a: Number, b: Number, *, subtract: bool = False) -> Number:
    """a + b (or a - b), exactly."""
    common = max(a.fraction, b.fraction)
    return Number(graph.add(a.node, b.node, common - a.fraction, common - b.fraction, subtract=subtract), common)


def plus(graph: AdderGraph, x: Number, raw: int, fraction: int) -> Number:
    """x + raw * 2**-fraction, exactly."""
    zeros = (raw & -raw).bit_length() - 1 if raw else 0
    raw, fraction = (raw >> zeros, fraction - zeros) if raw else (0, x.fraction)
    common = max(x.fraction, fraction)
    return Number(graph.add(x.node, graph.constant(raw), common - x.fraction, common - fraction), common)


def zero(graph: AdderGraph) -> Number:
    """0."""
    return Number(graph.constant(0), 0)


def relu(graph: AdderGraph, x: Number) -> Number:
    """max(x, 0)."""
    return Number(graph.clamp(x.node, 0, None), x.fraction)


def where_negative(graph: AdderGraph, x: Number, sign: Number) -> Number:
    """x where `sign` is negative, otherwise 0."""
    return Number(graph.select(x.node, sign.node, graph.nodes[sign.node].width - 1), x.fraction)


def greater(graph: AdderGraph, a: Number, b: Number, *, least: bool = False) -> Number:
    """max(a, b) = b + relu(a - b), or min(a, b) = a - relu(a - b) with `least`."""
    above = relu(graph, total(graph, a, b, subtract=True))
    before = len(graph.nodes)
    y = total(graph, a if least else b, above, subtract=least)
    if len(graph.nodes) > before:
        ends = [[end << (y.fraction - x.fraction) for end in graph.range(x.node)] for x in (a, b)]
        pick = min if least else max
        graph.narrow(y.node, *map(pick, *ends))
    return y


def merged(graph: AdderGraph, operation: MergeOperation, a: Number, b: Number) -> Number:
    """The merge of two numbers, exactly."""
    match operation:
        case MergeOperation.ADD:
            return total(graph, a, b)
        case MergeOperation.SUBTRACT:
            return total(graph, a, b, subtract=True)
        case MergeOperation.MULTIPLY:
            return product(graph, a, b)
        case MergeOperation.AVERAGE:
            y = total(graph, a, b)
            return Number(y.node, y.fraction + 1)
        case MergeOperation.MAXIMUM | MergeOperation.MINIMUM:
            return greater(graph, a, b, least=operation is MergeOperation.MINIMUM)


def tree(graph: AdderGraph, terms: Sequence[Number]) -> Number:
    """The sum of the terms, as a balanced tree."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return total(graph, tree(graph, terms[:half]), tree(graph, terms[half:]))


def summed(graph: AdderGraph, terms: Sequence[Number], to: FixedPoint) -> Number:
    """The sum of the terms, cast to `to` after each; where nothing is rounded and it wraps, only the last cast counts."""
    if to.overflow is Overflow.WRAP and all(term.fraction <= to.fraction for term in terms):
        return cast(graph, tree(graph, terms), to)
    y = zero(graph)
    for term in terms:
        y = cast(graph, total(graph, y, term), to)
    return y


def at_fraction(graph: AdderGraph, x: Number, fraction: int) -> int:
    """Return the node of x with `fraction` fraction bits, at least as many as x has."""
    return graph.shift(x.node, fraction - x.fraction)


def product(graph: AdderGraph, a: Number, b: Number) -> Number:
    """a * b, exactly: the bits of the narrower one select multiples of the other, which a balanced tree adds."""
    if graph.nodes[a.node].width < graph.nodes[b.node].width:
        a, b = b, a
    fraction, before = a.fraction + b.fraction, len(graph.nodes)
    low, high = graph.range(b.node)
    top = graph.nodes[b.node].width - 1  # weight -2**top; a number that cannot be negative has a 0 there
    terms = [Number(graph.select(a.node, b.node, k), fraction - k) for k in range(top)]
    y = tree(graph, [term for term in terms if graph.value(term.node) != 0] or [zero(graph)])
    if low < 0:
        y = total(graph, y, Number(graph.select(a.node, b.node, top), fraction - top), subtract=True)
    return _narrowed(graph, y, fraction, [i * j for i in graph.range(a.node) for j in (low, high)], before)


def _narrowed(graph: AdderGraph, y: Number, fraction: int, ends: Sequence[int], before: int) -> Number:
    """y, whose values with `fraction` fraction bits are known to be between the ends.

    Args:
        before: nodes when its sum began.
    """
    if y.node >= before and y.fraction == fraction:
        graph.narrow(y.node, min(ends), max(ends))
    return y


def scaled(graph: AdderGraph, x: Number, factor: int) -> Number:
    """x * factor, exactly, for a factor above 0: one shifted x for each of its digits that is not zero."""
    before = len(graph.nodes)
    y = zero(graph)
    for exponent, negative in sorted(_digits(factor), reverse=True):
        y = total(graph, y, Number(x.node, x.fraction - exponent), subtract=negative)
    return _narrowed(graph, y, x.fraction, [end * factor for end in graph.range(x.node)], before)


def _digits(value: int) -> Iterator[tuple[int, bool]]:
    """The canonical signed digits of a positive number: (exponent, whether negative)."""
    exponent = 0
    while value:
        if value & 1:
            negative = value & 3 == 3
            yield exponent, negative
            value += 1 if negative else -1
        value, exponent = value >> 1, exponent + 1
