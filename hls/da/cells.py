# SPDX-License-Identifier: Apache-2.0
"""Functions in tables, and the cells of an LSTM and of a GRU, which are made of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, cast, plus, product, relu, scaled, total, where_negative, zero
from hypersonic.hls.da.products import matmul
from hypersonic.hls.fixed import Rounding
from hypersonic.hls.network.layers.recurrent import Recurrent
from hypersonic.hls.network.layers.table import Table


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


def lstm(graph: AdderGraph, layer: Recurrent, x: Sequence[Number], u: Sequence[Number], held: Number) -> tuple[Number, Number]:
    """The new state of a unit, and its new cell state. x, u: the gates of the input and of the state before."""
    accum, y = layer.accum, layer.y.precision
    sums = [cast(graph, total(graph, a, b), accum) for a, b in zip(x, u, strict=True)]
    i, f, o = (looked_up(graph, layer.gate, sums[gate]) for gate in (0, 1, 3))
    c = looked_up(graph, layer.act, sums[2])
    kept = cast(graph, total(graph, product(graph, c, i), product(graph, held, f)), y)
    return cast(graph, product(graph, o, looked_up(graph, layer.late_act, kept)), y), kept


def gru(graph: AdderGraph, layer: Recurrent, x: Sequence[Number], u: Sequence[Number], held: Number) -> tuple[Number, Number]:
    """The new state of a unit, twice, as lstm."""
    accum = layer.accum
    z, r = (looked_up(graph, layer.gate, cast(graph, total(graph, x[g], u[g]), accum)) for g in (0, 1))
    h = looked_up(graph, layer.act, cast(graph, total(graph, x[2], cast(graph, product(graph, r, u[2]), accum)), accum))
    rest = plus(graph, total(graph, zero(graph), z, subtract=True), 1, 0)
    state = cast(graph, total(graph, product(graph, h, rest), product(graph, held, z)), layer.y.precision)
    return state, state
