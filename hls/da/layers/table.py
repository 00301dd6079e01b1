# SPDX-License-Identifier: Apache-2.0
"""Functions in tables."""

from __future__ import annotations

from collections.abc import Sequence

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, cast, relu, scaled, total, where_negative, zero
from hypersonic.hls.da.products import matmul
from hypersonic.hls.fixed import Rounding
from hypersonic.hls.network.layers.table import Table


def _table(graph: AdderGraph, layer: Table, x: Numbers) -> Sequence[Number]:
    return [looked_up(graph, layer, number) for number in x]


def looked_up(graph: AdderGraph, layer: Table, x: Number) -> Number:
    """Return the entry of x, as table_value in network/layers/table.py has it."""
    values, to = tuple(map(int, layer.values.raw)), layer.y.precision
    size = len(values)
    steps = scaled(graph, x, size)
    if layer.negative_only:
        steps = relu(graph, total(graph, zero(graph), steps, subtract=True))
    whole = graph.drop(steps.node, steps.fraction + layer.span_log2, Rounding.TRN_ZERO)
    if not layer.negative_only:
        whole = graph.add(whole, graph.constant(size // 2))
    found = Number(graph.lookup(graph.clamp(whole, 0, size - 1), values), to.fraction)
    if not layer.negative_only:
        return found
    slope = matmul(graph, layer.name, (relu(graph, x),), layer.scale.raw.reshape(1, 1), layer.scale.fraction)[0]
    above = cast(graph, slope, to)
    return total(graph, above, where_negative(graph, found, x))


UNROLL = {Table: _table}
