# SPDX-License-Identifier: Apache-2.0
"""Turns a Network into a graph of adders (distributed arithmetic). hls/da/cmvm.py factors the constant matrices.

Everything around the matrices (rounding, overflow, relu, biases) follows hls4ml's C++.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

import numpy as np

from hypersonic.hls.da.cmvm import count_digits
from hypersonic.hls.da.einsum import einsum, einsum_dense
from hypersonic.hls.da.garnet import garnet
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.network import (
    Activation,
    Concatenation,
    Dense,
    Dot,
    Einsum,
    EinsumDense,
    GarNet,
    Layer,
    Merge,
    Network,
    Scaling,
    Unrolled,
    Wiring,
)
from hypersonic.hls.da.numbers import (
    Number,
    Numbers,
    cast,
    merged,
    plus,
    product,
    relu,
    summed,
    zero,
)
from hypersonic.hls.da.products import check_weights, dense, matmul
from hypersonic.hls.da.unroll import unrolled

#: digits of a matrix that takes da4ml seconds to factor
LARGE = 4_000


def adder_graph(
    network: Network, progress: Callable[[str], None] = lambda _: None, counts: dict[str, int] | None = None
) -> AdderGraph:
    """Return the whole network as one graph from raw inputs to raw outputs, the elements of all tensors in order.

    progress: called with a line for each matrix of more than LARGE digits. counts: is given the number of operations that each
    layer adds, by its name; those that an earlier layer has too are that one's.
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
        if isinstance(layer, Dense) and count_digits(layer.weight.raw) > LARGE:
            progress(f"factoring layer {layer.name}, {' x '.join(map(str, layer.weight.raw.shape))} weights")
        before = len(graph.nodes)
        numbers[layer.name] = tuple(cast(graph, y, layer.result) for y in _apply(graph, layer, numbers))
        if counts is not None:
            counts[layer.name] = len(graph.nodes) - before
    outputs = [y for name in network.outputs for y in numbers[name]]
    types = network.output_types
    return graph.finished(tuple(graph.shift(y.node, to.fraction - y.fraction) for y, to in zip(outputs, types, strict=True)))


def _apply(graph: AdderGraph, layer: Layer, numbers: dict[str, Numbers]) -> Iterable[Number]:  # noqa: C901, PLR0911 - one a layer
    """The layer's numbers before they are cast to its result type. They may be computed lazily, one by one."""
    match layer:
        case Dense():
            return dense(graph, layer, numbers[layer.source])
        case Scaling():
            return _scaling(graph, layer, numbers[layer.source])
        case Activation(_, source, nonnegative):
            return (relu(graph, y) if nonnegative else y for y in numbers[source])
        case Merge(_, (a, b), operation):
            return (merged(graph, operation, x, y) for x, y in zip(numbers[a], numbers[b], strict=True))
        case Concatenation(_, (a, b), (run_a, run_b)):
            turns = zip(_runs(numbers[a], run_a), _runs(numbers[b], run_b), strict=True)
            return [y for left, right in turns for y in (*left, *right)]
        case Dot():
            return [_dot(graph, layer, *(numbers[source] for source in layer.sources))]
        case EinsumDense():
            return einsum_dense(graph, layer, numbers[layer.source])
        case Einsum():
            return einsum(graph, layer, *(numbers[source] for source in layer.sources))
        case GarNet():
            return garnet(graph, layer, *(numbers[source] for source in layer.sources))
        case Wiring(_, source, places):
            return [zero(graph) if place < 0 else numbers[source][place] for place in places]
        case Unrolled(_, sources, read):
            return unrolled(graph, read, *(numbers[source] for source in sources))


def _dot(graph: AdderGraph, layer: Dot, a: Numbers, b: Numbers) -> Number:
    return summed(graph, [cast(graph, product(graph, x, y), layer.accum) for x, y in zip(a, b, strict=True)], layer.accum)


def _runs(numbers: Numbers, length: int) -> Iterable[Numbers]:
    return (numbers[at : at + length] for at in range(0, len(numbers), length))


def _scaling(graph: AdderGraph, layer: Scaling, x: tuple[Number, ...]) -> list[Number]:
    check_weights(layer.name, layer.scale.raw)
    products = [
        matmul(graph, layer.name, (number,), np.array([[scale]]), layer.scale.fraction)[0]
        for number, scale in zip(x, layer.scale.raw, strict=True)
    ]
    return [plus(graph, y, int(b), layer.bias.fraction) for y, b in zip(products, layer.bias.raw, strict=True)]
