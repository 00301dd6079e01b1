# SPDX-License-Identifier: Apache-2.0
"""Turns a network into a graph of adders (distributed arithmetic). hls/da/cmvm.py factors the constant matrices.

Everything around the matrices (rounding, overflow, relu, biases) follows hls4ml's C++. Every file of da/layers/
defines an UNROLL: class -> `(graph, layer, *inputs)` -> its numbers.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from hypersonic.hls.da import layers
from hypersonic.hls.da.cmvm import count_digits
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, cast
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.network.attributes import unsupported
from hypersonic.hls.network.base import Layer, Network
from hypersonic.hls.network.collect import collect
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.read import read_network

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


_UNROLL: dict[type, Callable[..., Iterable[Number]]] = {
    noun: unroll
    for family in collect(layers, pkgutil.iter_modules(layers.__path__), "UNROLL", dict).values()
    for noun, unroll in family.items()
}


def unrolled(graph: AdderGraph, layer: Layer, *inputs: Numbers) -> Iterable[Number]:
    """Return the layer's numbers.

    They are returned before the cast to the layer's result type, unless that cast is a part of the layer; casting twice to one
    type changes nothing.

    They may be computed lazily, one by one.

    Args:
        inputs: those of its inputs.

    Raises:
        UnsupportedLayerError: With the layer's name, for arithmetic that adders cannot do exactly.
    """
    if (unroll := _UNROLL.get(type(layer))) is None:
        raise unsupported(layer.name, f"the da core has no {type(layer).__name__}")
    return unroll(graph, layer, *inputs)


def read_da_network(model: Any) -> Network:
    """Return the network of a ModelGraph. Raises UnsupportedLayerError, with the layer's name, and for io_stream."""
    if (io_type := model.config.get_config_value("IOType")) != "io_parallel":
        raise UnsupportedLayerError(f"io_type is {io_type}, the da core takes io_parallel")
    return read_network(model)
