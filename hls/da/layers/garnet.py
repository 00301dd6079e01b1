# SPDX-License-Identifier: Apache-2.0
"""GarNets in adders."""

from __future__ import annotations

from math import log2

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, at_fraction, cast, product, summed, total, where_negative
from hypersonic.hls.da.products import check_count, check_weights, matmul
from hypersonic.hls.fixed import FixedPoint, Rounding
from hypersonic.hls.network.layers.garnet import DISTANCE, GarNet, GarNetStep, edge_weights


def _garnet(graph: AdderGraph, layer: GarNet, x: Numbers, count: Numbers) -> list[Number]:
    """Return the means of the outputs."""
    check_count(layer.name, sum(layer.vertices * 2 * step.distance.raw.size + step.weight.raw.size for step in layer.steps))
    for step in layer.steps:
        for constants in (step.distance, step.distance_bias, step.weight, step.bias, step.offset):
            check_weights(layer.name, constants.raw)
    width = len(x) // layer.vertices
    features = [list(x[at : at + width]) for at in range(0, len(x), width)]
    present = _present(graph, layer, count[0])
    kind = layer.a.precision
    for step in layer.steps[:-1]:
        edges = [_edges(graph, layer, step, vertex, below) for vertex, below in zip(features, present, strict=True)]
        means = _means(graph, layer, features, edges, kind)
        features, kind = _vertices(graph, layer, step, edges, *means), layer.y.precision
    step = layer.steps[-1]
    edges = [_edges(graph, layer, step, vertex, below) for vertex, below in zip(features, present, strict=True)]
    weights, sums = _means(graph, layer, features, edges, kind)
    bases = _bases(graph, layer, step, weights, sums)
    given = []
    for offset, row in zip(step.offset.raw.tolist(), bases, strict=True):
        rounded = layer.aggregate.cast(offset, step.offset.fraction)
        start = matmul(graph, layer.name, count, np.array([[rounded]]), layer.aggregate.fraction)[0]
        share = _shifted(graph, cast(graph, start, layer.aggregate), int(log2(layer.vertices)), layer.aggregate)
        y = cast(graph, cast(graph, share, step.offset_type), layer.y.precision)
        for weight, base in zip(weights, row, strict=True):
            y = cast(graph, total(graph, y, product(graph, weight, base)), layer.y.precision)
        given.append(y)
    return given


def _present(graph: AdderGraph, layer: GarNet, count: Number) -> list[Number]:
    """A number for each vertex, negative where the event has it.

    The C++ ends a block at the vertex that equals the count. None equals a count with a fraction, so the whole block is taken.
    """
    below = [total(graph, _constant(graph, at), count, subtract=True) for at in range(layer.vertices)]
    if count.fraction <= 0:
        return below
    whole = Number(graph.drop(count.node, count.fraction, Rounding.TRN), 0)
    fraction = total(graph, whole, count, subtract=True)
    block = layer.vertices // layer.blocks
    back = [where_negative(graph, _constant(graph, -(at % block)), fraction) for at in range(layer.vertices)]
    return [total(graph, number, more) for number, more in zip(below, back, strict=True)]


def _constant(graph: AdderGraph, raw: int, fraction: int = 0) -> Number:
    return Number(graph.constant(raw), fraction)


def _edges(graph: AdderGraph, layer: GarNet, step: GarNetStep, x: list[Number], below: Number) -> list[Number]:
    """The edge weights of a vertex, one of each aggregator.

    Args:
        below: negative where the event has the vertex.
    """
    products = [
        matmul(graph, layer.name, (number,), row[None], step.distance.fraction)
        for number, row in zip(x, step.distance.raw.T, strict=True)
    ]
    found = []
    for at, bias in enumerate(step.distance_bias.raw.tolist()):
        distance = cast(graph, _constant(graph, bias, step.distance_bias.fraction), DISTANCE)
        for row in products:
            distance = cast(graph, total(graph, distance, cast(graph, row[at], DISTANCE)), DISTANCE)
        found.append(where_negative(graph, _edge(graph, layer, distance), below))
    return found


def _edge(graph: AdderGraph, layer: GarNet, distance: Number) -> Number:
    """The edge weight of a distance, from the table without the equal entries at its ends."""
    table = edge_weights(layer.edge)
    first = next((at for at, value in enumerate(table) if value != table[0]), 1) - 1
    last = len(table) - next((at for at, value in enumerate(table[::-1]) if value != table[-1]), 1)
    node = graph.clamp(at_fraction(graph, distance, DISTANCE.fraction), first + DISTANCE.min_raw, last + DISTANCE.min_raw)
    index = graph.add(node, graph.constant(-DISTANCE.min_raw - first))
    return Number(graph.lookup(index, table[first : last + 1]), layer.edge.fraction)


def _means(
    graph: AdderGraph, layer: GarNet, features: list[list[Number]], edges: list[list[Number]], kind: FixedPoint
) -> tuple[list[Number], list[list[Number]]]:
    """Over all vertices: of the edge weights, (aggregators,), and of features times these, (aggregators, features)."""
    weights, sums = [], []
    for column in zip(*edges, strict=True):
        weights.append(cast(graph, _mean(graph, layer, list(column), layer.edge_sum), layer.edge))
        parts = [
            [cast(graph, product(graph, number, edge), kind) for number in vertex]
            for vertex, edge in zip(features, column, strict=True)
        ]
        sums.append([_mean(graph, layer, list(terms), layer.aggregate) for terms in zip(*parts, strict=True)])
    return weights, sums


def _mean(graph: AdderGraph, layer: GarNet, terms: list[Number], to: FixedPoint) -> Number:
    """The sums of the blocks, each divided by its vertices, and their sum divided by their number, all of type `to`."""
    size = layer.vertices // layer.blocks
    blocks = [summed(graph, terms[at : at + size], to) for at in range(0, layer.vertices, size)]
    shares = [_shifted(graph, block, int(log2(size)), to) for block in blocks]
    return _shifted(graph, summed(graph, shares, to), int(log2(layer.blocks)), to)


def _shifted(graph: AdderGraph, x: Number, bits: int, kind: FixedPoint) -> Number:
    """x >> bits, in the type that x has: bits below its last are dropped."""
    return cast(graph, Number(x.node, x.fraction + bits), FixedPoint(kind.width, kind.integer, kind.signed))


def _bases(
    graph: AdderGraph, layer: GarNet, step: GarNetStep, weights: list[Number], sums: list[list[Number]]
) -> list[list[Number]]:
    """The share of each aggregator in each output, without the edge weight: (outputs, aggregators)."""
    columns = []
    for at, (weight, row) in enumerate(zip(weights, sums, strict=True)):
        starts = matmul(graph, layer.name, (weight,), step.bias.raw[None, :, at], step.bias.fraction)
        column = [cast(graph, start, layer.aggregate) for start in starts]
        for k, number in enumerate(row):
            terms = matmul(graph, layer.name, (number,), step.weight.raw[None, :, at, k], step.weight.fraction)
            column = [cast(graph, total(graph, y, term), layer.aggregate) for y, term in zip(column, terms, strict=True)]
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def _vertices(
    graph: AdderGraph,
    layer: GarNet,
    step: GarNetStep,
    edges: list[list[Number]],
    weights: list[Number],
    sums: list[list[Number]],
) -> list[list[Number]]:
    """The outputs of each vertex, which are the features of the next GarNet."""
    bases = _bases(graph, layer, step, weights, sums)
    offsets = [cast(graph, _constant(graph, raw, step.offset.fraction), layer.y.precision) for raw in step.offset.raw.tolist()]
    given = []
    for vertex in edges:
        outputs = []
        for offset, row in zip(offsets, bases, strict=True):
            terms = [cast(graph, product(graph, edge, base), layer.y.precision) for edge, base in zip(vertex, row, strict=True)]
            outputs.append(summed(graph, [offset, *terms], layer.y.precision))
        given.append(outputs)
    return given


UNROLL = {GarNet: _garnet}
