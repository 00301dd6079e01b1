# SPDX-License-Identifier: Apache-2.0
"""GarNet and GarNetStack, hls4ml's own Keras layers, as its C++ computes them with collapse='mean' (nnet_garnet.h).

Each vertex has a distance to each aggregator, and from that an edge weight exp(-distance**2), which is 0 behind the last vertex
of an event. An aggregator takes the mean over all vertices of the edge weights, and of the features times these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import exp, log2
from typing import Any

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.network import GarNet, GarNetStep
from hypersonic.hls.da.numbers import Number, at_fraction, cast, product, summed, total, where_negative
from hypersonic.hls.da.products import check_count, check_weights, matmul
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.model_graph import precision_of, result_precision, written_constants

#: the type of a distance, whose bits address a table
DISTANCE = FixedPoint(12, 4, overflow=Overflow.SAT)
#: what the C++ of exp(-distance**2) is cast to first, the type of its argument
_POWER = FixedPoint(25, 9)


# ---------------------------------------------------------------- in hls4ml's graph
def read_garnet(layer: Any, sources: tuple[str, ...]) -> GarNet:
    """Read hls4ml's GarNet or GarNetStack. Raises UnsupportedLayerError for options that its C++ gets wrong."""
    data, count = (layer.get_input_variable(name).type.precision for name in layer.inputs)
    vertices, blocks = int(layer.get_attr("n_vertices")), int(layer.get_attr("reuse_factor"))
    precision_of(count, f"layer {layer.name!r}: the number of vertices")
    for why in _faults(layer, vertices):
        raise UnsupportedLayerError(f"layer {layer.name!r} ({layer.class_name}): {why}; {INSTEAD}")
    digits, block_digits = int(log2(vertices)), int(log2(blocks))
    whole = max(block_digits, digits - block_digits)
    stack = layer.class_name == "GarNetStack"
    steps = tuple(_step(layer, f"{k}_") for k in range(int(layer.get_attr("n_sublayers")))) if stack else (_step(layer, ""),)
    read = GarNet(
        layer.name,
        (sources[0], sources[1]),
        vertices,
        blocks,
        steps,
        precision_of(data, f"layer {layer.name!r}: the features"),
        _type(layer, "edge_weight", FixedPoint(10, 0, signed=False)),
        _type(layer, "edge_weight_aggr", FixedPoint(whole + 10, whole, signed=False)),
        _type(layer, "aggr", FixedPoint(whole + 13, whole + 3)),
        result_precision(layer),
    )
    check_count(layer.name, sum(vertices * 2 * step.distance.raw.size + step.weight.raw.size for step in steps))
    return read


def _faults(layer: Any, vertices: int) -> Iterator[str]:
    """Yield why the C++ does not compute what the Keras layer does, and what to write instead."""
    if layer.get_attr("collapse") is None:
        yield "collapse is None, and hls4ml's C++ leaves the outputs of absent vertices unset: use collapse='mean'"
    if layer.get_attr("collapse") != "mean":
        yield f"collapse is {layer.get_attr('collapse')!r}, for which hls4ml 1.3.0 has no C++: use collapse='mean'"
    if layer.get_attr("mean_by_nvert"):
        yield "with mean_by_nvert hls4ml's Keras layer sums its outputs, and its C++ takes their mean: leave it out"
    if layer.get_attr("quantizer") is not None:
        yield "with quantize_transforms hls4ml makes all weights ternary, whatever their bits: leave it out"
    if vertices & (vertices - 1):
        below = 1 << int(log2(vertices))
        yield f"it has {vertices} vertices, and hls4ml's C++ divides by {below}: pad the input to {2 * below} vertices"


def _type(layer: Any, name: str, default: FixedPoint) -> FixedPoint:
    """A type of the C++: hls4ml's own default unless the configuration has it for the layer or for its class."""
    precision, found = layer.model.config.get_precision(layer, var=name)
    return default if found.endswith("default_t") else precision_of(precision, f"layer {layer.name!r}: {name}")


def _step(layer: Any, number: str) -> GarNetStep:
    """number: that of a GarNet in a stack, as in the names of its constants."""
    names = f"input_transform_{number}", f"aggregator_distance_{number}", f"output_transform_{number}"
    weight, bias = (_constants(layer, f"{names[0]}{kind}") for kind in ("weights", "biases"))
    distance, nearest = (_constants(layer, f"{names[1]}{kind}") for kind in ("weights", "biases"))
    offset = _constants(layer, f"{names[2]}biases")
    shape = len(offset.raw), len(nearest.raw)
    return GarNetStep(
        Constants(distance.raw.reshape(shape[1], -1), distance.fraction),
        nearest,
        Constants(weight.raw.reshape(*shape, -1), weight.fraction),
        Constants(bias.raw.reshape(shape), bias.fraction),
        offset,
        precision_of(layer.weights[f"{names[2]}biases"].type.precision, f"layer {layer.name!r}: {names[2]}biases"),
    )


def _constants(layer: Any, name: str) -> Constants:
    read = written_constants(layer, name)
    check_weights(layer.name, read.raw)
    return Constants(read.raw.reshape(-1), read.fraction)


# ---------------------------------------------------------------- in adders
def garnet(graph: AdderGraph, layer: GarNet, x: tuple[Number, ...], count: tuple[Number, ...]) -> list[Number]:
    """Return the means of the outputs."""
    width = len(x) // layer.vertices
    features = [list(x[at : at + width]) for at in range(0, len(x), width)]
    present = _present(graph, layer, count[0])
    kind = layer.data
    for step in layer.steps[:-1]:
        edges = [_edges(graph, layer, step, vertex, below) for vertex, below in zip(features, present, strict=True)]
        means = _means(graph, layer, features, edges, kind)
        features, kind = _vertices(graph, layer, step, edges, *means), layer.result
    step = layer.steps[-1]
    edges = [_edges(graph, layer, step, vertex, below) for vertex, below in zip(features, present, strict=True)]
    weights, sums = _means(graph, layer, features, edges, kind)
    bases = _bases(graph, layer, step, weights, sums)
    given = []
    for offset, row in zip(step.offset.raw.tolist(), bases, strict=True):
        rounded = layer.aggregate.cast(offset, step.offset.fraction)
        start = matmul(graph, layer.name, count, np.array([[rounded]]), layer.aggregate.fraction)[0]
        share = _shifted(graph, cast(graph, start, layer.aggregate), int(log2(layer.vertices)), layer.aggregate)
        y = cast(graph, cast(graph, share, step.offset_type), layer.result)
        for weight, base in zip(weights, row, strict=True):
            y = cast(graph, total(graph, y, product(graph, weight, base)), layer.result)
        given.append(y)
    return given


def _present(graph: AdderGraph, layer: GarNet, count: Number) -> list[Number]:
    """A number for each vertex, negative where the event has it.

    The C++ leaves a block at the vertex that equals the count, so the block with a count that has a fraction is taken whole.
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
    """The edge weights of a vertex, one of each aggregator. below: negative where the event has the vertex."""
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


@cache
def edge_weights(kind: FixedPoint) -> tuple[int, ...]:
    """Return the table of edge weights, of type `kind`, for each raw distance from the least. That of 0 is just below 1."""
    table = []
    for raw in range(DISTANCE.min_raw, DISTANCE.max_raw + 1):
        distance = raw / (1 << DISTANCE.fraction)
        power = int(_POWER.from_float(exp(-distance * distance)))
        table.append(kind.cast(power, _POWER.fraction) if raw else kind.cast((1 << kind.width) - 1, kind.width))
    return tuple(table)


def _edge(graph: AdderGraph, layer: GarNet, distance: Number) -> Number:
    """The edge weight of a distance, from the part of the table that is not the same at the ends."""
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
    """The share of each aggregator in each output, but for the edge weight: (outputs, aggregators)."""
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
    offsets = [cast(graph, _constant(graph, raw, step.offset.fraction), layer.result) for raw in step.offset.raw.tolist()]
    given = []
    for vertex in edges:
        outputs = []
        for offset, row in zip(offsets, bases, strict=True):
            terms = [cast(graph, product(graph, edge, base), layer.result) for edge, base in zip(vertex, row, strict=True)]
            outputs.append(summed(graph, [offset, *terms], layer.result))
        given.append(outputs)
    return given
