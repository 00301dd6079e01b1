# SPDX-License-Identifier: Apache-2.0
"""GarNet and GarNetStack, hls4ml's own Keras layers, as its C++ computes them with collapse='mean' (nnet_garnet.h).

Each vertex has a distance to each aggregator, and from that an edge weight exp(-distance**2), which is 0 behind the last vertex
of an event. An aggregator takes the mean over all vertices of the edge weights, and of the features times these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import exp, log2
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint, Overflow
from hypersonic.hls.model_graph import precision_of, written_constants
from hypersonic.hls.network.attributes import refuse
from hypersonic.hls.network.base import Tensor, TwoInputs
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast, cast_all, plus

#: the type of a distance, whose bits address a table
DISTANCE = FixedPoint(12, 4, overflow=Overflow.SAT)
#: what the C++ of exp(-distance**2) is cast to first, the type of its argument
_POWER = FixedPoint(25, 9)


@dataclass(frozen=True, eq=False)
class GarNetStep:
    """The constants of a GarNet, or of one of those in a GarNetStack, as hls4ml contracts them.

    Attributes:
        distance: (aggregators, features), with its bias (aggregators,).
        weight: (outputs, aggregators, features), with its bias (outputs, aggregators).
        offset: (outputs,), of type offset_type.
    """

    distance: Constants
    distance_bias: Constants
    weight: Constants
    bias: Constants
    offset: Constants
    offset_type: FixedPoint


@dataclass(frozen=True, eq=False)
class GarNet(TwoInputs):
    """A sequence of GarNets, and the mean of the last one's outputs over all vertices.

    a: the features of the vertices. b: how many of the vertices there are.

    Attributes:
        blocks: groups of vertices that are summed on their own.
        edge, edge_sum, aggregate: the types of the edge weights, their sums and all other sums.
    """

    vertices: int
    blocks: int
    steps: tuple[GarNetStep, ...]
    edge: FixedPoint
    edge_sum: FixedPoint
    aggregate: FixedPoint


@cache
def edge_weights(kind: FixedPoint) -> tuple[int, ...]:
    """Return the table of edge weights, of type `kind`, for each raw distance from the least. That of 0 is just below 1."""
    table = []
    for raw in range(DISTANCE.min_raw, DISTANCE.max_raw + 1):
        distance = raw / (1 << DISTANCE.fraction)
        power = int(_POWER.from_float(exp(-distance * distance)))
        table.append(kind.cast(power, _POWER.fraction) if raw else kind.cast((1 << kind.width) - 1, kind.width))
    return tuple(table)


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> GarNet:
    """Read hls4ml's GarNet or GarNetStack. Raises UnsupportedLayerError for options that its C++ gets wrong."""
    vertices, blocks = int(layer.get_attr("n_vertices")), int(layer.get_attr("reuse_factor"))
    for why in _faults(layer, vertices):
        raise refuse(layer, why)
    digits, block_digits = int(log2(vertices)), int(log2(blocks))
    whole = max(block_digits, digits - block_digits)
    stack = layer.class_name == "GarNetStack"
    steps = tuple(_step(layer, f"{k}_") for k in range(int(layer.get_attr("n_sublayers")))) if stack else (_step(layer, ""),)
    return GarNet(
        layer.name,
        a,
        b,
        y,
        vertices,
        blocks,
        steps,
        _type(layer, "edge_weight", FixedPoint(10, 0, signed=False)),
        _type(layer, "edge_weight_aggr", FixedPoint(whole + 10, whole, signed=False)),
        _type(layer, "aggr", FixedPoint(whole + 13, whole + 3)),
    )


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
    """Return one GarNet of a stack.

    Args:
        number: that of a GarNet in a stack, as in the names of its constants.
    """
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
    return Constants(read.raw.reshape(-1), read.fraction)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: GarNet, a: Integers, b: Integers) -> Integers:
    features, kind = a.reshape(len(a), layer.vertices, -1), layer.a.precision
    present = _present(layer, b[:, 0])
    for step in layer.steps[:-1]:
        edges = _edges(layer, step, features, kind, present)
        bases = _bases(layer, step, *_means(layer, features, kind, edges))
        features, kind = _vertices(layer, step, edges, bases), layer.y.precision
    step = layer.steps[-1]
    weights, sums = _means(layer, features, kind, _edges(layer, step, features, kind, present))
    bases, to = _bases(layer, step, weights, sums), layer.y.precision
    offset = cast_all(step.offset, layer.aggregate)
    share = cast(b * offset, layer.aggregate.fraction + layer.b.precision.fraction, layer.aggregate)
    y = cast(_shifted(share, layer.vertices), layer.aggregate.fraction, step.offset_type)
    y = cast(y, step.offset_type.fraction, to)
    for at in range(weights.shape[1]):
        y = plus(y, weights[:, at, None] * bases[:, :, at], layer.edge.fraction + layer.aggregate.fraction, to)
    return y


def _present(layer: GarNet, count: Integers) -> Integers:
    """Return 1 for each vertex that an event has, otherwise 0: (rows, vertices).

    The C++ ends a block at the vertex that equals the count. None equals a count with a fraction, so the whole block is taken.
    """
    fraction = layer.b.precision.fraction
    at, block = np.arange(layer.vertices), layer.vertices // layer.blocks
    below = (at[None] << max(fraction, 0)) < (count[:, None] << max(-fraction, 0))
    whole = (count[:, None] & ((1 << max(fraction, 0)) - 1)) == 0
    started = ((at - at % block)[None] << max(fraction, 0)) < (count[:, None] << max(-fraction, 0))
    return np.where(whole, below, started).astype(object)


def _edges(layer: GarNet, step: GarNetStep, x: Integers, kind: FixedPoint, present: Integers) -> Integers:
    """Return the edge weights (rows, vertices, aggregators).

    Args:
        x: (rows, vertices, features) of type kind.
    """
    products = x[:, :, None] * step.distance.raw.astype(object)
    parts = cast(products, kind.fraction + step.distance.fraction, DISTANCE)
    start = cast_all(step.distance_bias, DISTANCE)
    distance = np.broadcast_to(start, parts.shape[:-1])
    for feature in range(parts.shape[-1]):
        distance = cast(distance + parts[..., feature], DISTANCE.fraction, DISTANCE)
    table = np.array(edge_weights(layer.edge), dtype=object)
    return table[(distance - DISTANCE.min_raw).astype(np.int64)] * present[:, :, None]


def _means(layer: GarNet, x: Integers, kind: FixedPoint, edges: Integers) -> tuple[Integers, Integers]:
    """Return the means over all vertices of edge weights (rows, aggregators) and of features times these (.., features)."""
    weights = cast(_mean(layer, edges, layer.edge.fraction, layer.edge_sum), layer.edge_sum.fraction, layer.edge)
    parts = cast(x[:, :, None] * edges[..., None], kind.fraction + layer.edge.fraction, kind)
    return weights, _mean(layer, parts, kind.fraction, layer.aggregate)


def _mean(layer: GarNet, terms: Integers, fraction: int, to: FixedPoint) -> Integers:
    """Return the sums of the blocks, each divided by its vertices, and their sum divided by their number, of type `to`."""
    size = layer.vertices // layer.blocks
    blocks = terms.reshape(len(terms), layer.blocks, size, *terms.shape[2:])
    total = np.zeros((len(terms), *terms.shape[2:]), dtype=object)
    for block in range(layer.blocks):
        part = np.zeros_like(total)
        for vertex in range(size):
            part = plus(part, blocks[:, block, vertex], fraction, to)
        total = plus(total, _shifted(part, size), to.fraction, to)
    return _shifted(total, layer.blocks)


def _shifted(values: Integers, count: int) -> Integers:
    """Return numbers divided by a power of two, without the bits that this moves behind their last."""
    return values >> int(log2(count))


def _bases(layer: GarNet, step: GarNetStep, weights: Integers, sums: Integers) -> Integers:
    """Return the share of each aggregator in each output, without the edge weight: (rows, outputs, aggregators)."""
    aggregate = layer.aggregate
    y = cast(weights[:, None] * step.bias.raw.astype(object), layer.edge.fraction + step.bias.fraction, aggregate)
    for feature in range(sums.shape[-1]):
        terms = sums[:, None, :, feature] * step.weight.raw[..., feature].astype(object)
        y = plus(y, terms, aggregate.fraction + step.weight.fraction, aggregate)
    return y


def _vertices(layer: GarNet, step: GarNetStep, edges: Integers, bases: Integers) -> Integers:
    """Return the outputs of each vertex (rows, vertices, outputs), which are the features of the next GarNet."""
    to = layer.y.precision
    terms = cast(edges[:, :, None] * bases[:, None], layer.edge.fraction + layer.aggregate.fraction, to)
    start = cast_all(step.offset, to)
    y = np.broadcast_to(start, terms.shape[:-1])
    for at in range(terms.shape[-1]):
        y = plus(y, terms[..., at], to.fraction, to)
    return y


LAYER = LayerType(GarNet, _evaluate, readers=dict.fromkeys(("GarNet", "GarNetStack"), _read))
