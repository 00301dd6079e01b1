# SPDX-License-Identifier: Apache-2.0
"""Turns a network into a graph of adders (distributed arithmetic). hls/da/cmvm.py factors the constant matrices.

Everything around the matrices (rounding, overflow, relu, biases) follows hls4ml's C++.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hypersonic.hls.da.cmvm import count_digits
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, cast
from hypersonic.hls.da.registry import unrolled
from hypersonic.hls.network.base import Network
from hypersonic.hls.network.layers.dense import Dense

#: digits of a matrix that takes da4ml seconds to factor
LARGE = 4_000


def adder_graph(
    network: Network, progress: Callable[[str], None] = lambda _: None, counts: dict[str, int] | None = None
) -> AdderGraph:
    """Return the whole network as one graph from raw inputs to raw outputs, the elements of all tensors in order.

    Args:
        progress: called with a line for each matrix of more than LARGE digits.
        counts: filled with the number of operations that each layer adds, by the name of its result; an operation that an
            earlier layer also has counts for that layer.

    Raises:
        UnsupportedLayerError: With the layer's name, for arithmetic that adders cannot do exactly.
    """
    graph = AdderGraph()
    numbers: dict[str, Numbers] = {}
    index = count()
    for x in network.inputs:
        low, high = x.precision.min_raw, x.precision.max_raw
        numbers[x.name] = tuple(Number(graph.input(next(index), low, high), x.precision.fraction) for _ in range(x.size))
    for layer in network.layers:
        if isinstance(layer, Dense) and layer.vectors == 1 and count_digits(layer.weight.raw) > LARGE:
            progress(f"factoring layer {layer.name}, {' x '.join(map(str, layer.weight.raw.shape))} weights")
        before, y = len(graph.nodes), layer.y
        found = unrolled(graph, layer, *(numbers[x.name] for x in layer.inputs))
        numbers[y.name] = tuple(cast(graph, number, y.precision) for number in found)
        if counts is not None:
            counts[y.name] = len(graph.nodes) - before
    outputs = [(number, y.precision) for y in network.outputs for number in numbers[y.name]]
    return graph.finished(tuple(graph.shift(number.node, to.fraction - number.fraction) for number, to in outputs))
