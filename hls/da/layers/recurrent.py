# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, all their steps at once."""

from __future__ import annotations

from collections.abc import Sequence

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.layers.table import looked_up
from hypersonic.hls.da.numbers import Number, Numbers, cast, plus, product, total, zero
from hypersonic.hls.da.products import Matrix, check_count, dense
from hypersonic.hls.network.layers.recurrent import Cell, Recurrent


def _recurrent(graph: AdderGraph, layer: Recurrent, x: Numbers) -> Sequence[Number]:
    check_count(layer.name, layer.steps * layer.weight.raw.size)
    matrix = Matrix(layer.name, layer.weight, layer.bias, layer.accum)
    unit = _lstm if layer.cell is Cell.LSTM else _gru
    state = held = [zero(graph)] * layer.units
    given: list[Number] = []
    for at in range(0, len(x), layer.units * layer.cell):
        of_h = dense(graph, matrix, state)
        both = []
        for k in range(layer.units):
            first = k * layer.cell
            gates = x[at + first : at + first + layer.cell], of_h[first : first + layer.cell]
            both.append(unit(graph, layer, *gates, held[k]))
        state, held = ([one[side] for one in both] for side in (0, 1))
        given = given + state if layer.sequences else state
    return given


def _lstm(graph: AdderGraph, layer: Recurrent, x: Sequence[Number], u: Sequence[Number], held: Number) -> tuple[Number, Number]:
    """The new state of a unit, and its new cell state.

    Args:
        x, u: the gates of the input and of the state before.
    """
    accum, y = layer.accum, layer.y.precision
    sums = [cast(graph, total(graph, a, b), accum) for a, b in zip(x, u, strict=True)]
    i, f, o = (looked_up(graph, layer.gate, sums[gate]) for gate in (0, 1, 3))
    c = looked_up(graph, layer.act, sums[2])
    kept = cast(graph, total(graph, product(graph, c, i), product(graph, held, f)), y)
    return cast(graph, product(graph, o, looked_up(graph, layer.late_act, kept)), y), kept


def _gru(graph: AdderGraph, layer: Recurrent, x: Sequence[Number], u: Sequence[Number], held: Number) -> tuple[Number, Number]:
    """The new state of a unit, twice, as _lstm."""
    accum = layer.accum
    z, r = (looked_up(graph, layer.gate, cast(graph, total(graph, x[g], u[g]), accum)) for g in (0, 1))
    h = looked_up(graph, layer.act, cast(graph, total(graph, x[2], cast(graph, product(graph, r, u[2]), accum)), accum))
    rest = plus(graph, total(graph, zero(graph), z, subtract=True), 1, 0)
    state = cast(graph, total(graph, product(graph, h, rest), product(graph, held, z)), layer.y.precision)
    return state, state


UNROLL = {Recurrent: _recurrent}
