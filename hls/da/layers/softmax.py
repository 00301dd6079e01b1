# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last dimension."""

from __future__ import annotations

from collections.abc import Sequence

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, at_fraction, cast, product, total, tree, where_negative
from hypersonic.hls.da.places import greatest
from hypersonic.hls.fixed import FixedPoint, Rounding
from hypersonic.hls.network.layers.softmax import Softmax, SoftmaxKind
from hypersonic.hls.network.raw import cast_all


def _softmax_rows(graph: AdderGraph, layer: Softmax, x: Numbers) -> Sequence[Number]:
    classes = layer.x.channels
    rows = [x[at : at + classes] for at in range(0, len(x), classes)]
    each = _argmax if layer.kind is SoftmaxKind.ARGMAX else _softmax
    return [y for row in rows for y in each(graph, layer, row)]


def _argmax(graph: AdderGraph, layer: Softmax, x: Numbers) -> list[Number]:
    """1 for the first of the greatest: no earlier one is as great, and no later one is greater."""
    del layer
    most, one = greatest(graph, x), Number(graph.constant(1), 0)
    below = [where_negative(graph, one, total(graph, number, most, subtract=True)) for number in x]
    first, answers = one, []
    for less in below:
        answers.append(total(graph, first, Number(graph.select(first.node, less.node, 0), 0), subtract=True))
        first = Number(graph.select(first.node, less.node, 0), 0)
    return answers


def _softmax(graph: AdderGraph, layer: Softmax, x: Numbers) -> list[Number]:
    kind, terms = layer.x.precision, x
    if layer.kind is SoftmaxKind.STABLE:
        most, kind = greatest(graph, x), layer.normalised
        terms = tuple(cast(graph, total(graph, most, number, subtract=True), kind) for number in x)
    powers = tuple(cast_all(layer.exp_table, layer.accum))
    e = [Number(graph.lookup(_address(graph, term, kind, len(powers)), powers), layer.accum.fraction) for term in terms]
    summed = cast(graph, cast(graph, tree(graph, e), layer.accum), layer.inverse_input)
    inverses = tuple(map(int, layer.inv_table.raw))
    r = Number(graph.lookup(_address(graph, summed, layer.inverse_input, len(inverses)), inverses), layer.inv_table.fraction)
    return [product(graph, power, r) for power in e]


def _address(graph: AdderGraph, x: Number, kind: FixedPoint, size: int) -> int:
    """The top bits of x in its type, which address a table of `size` entries."""
    bits = graph.wrap(at_fraction(graph, x, kind.fraction), kind.width, signed=False)
    return graph.drop(bits, kind.width - (size.bit_length() - 1), Rounding.TRN)


UNROLL = {Softmax: _softmax_rows}
