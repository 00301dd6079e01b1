# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers without a table, quantisers, and embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, at_fraction, cast, plus, relu, total, where_negative, zero
from hypersonic.hls.da.products import check_weights, matmul
from hypersonic.hls.network.layers.embedding import Embedding
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.quantise import Quantise


def _map(graph: AdderGraph, layer: Map, x: Numbers) -> Iterable[Number]:
    if layer.function is MapFunction.LINEAR:
        return x
    if layer.function is MapFunction.RELU:
        return (relu(graph, number) for number in x)
    if layer.function is not MapFunction.STEP:
        check_weights(layer.name, layer.scale.raw)
    if layer.function is MapFunction.AFFINE:
        return _affine(graph, layer, x)
    scales, biases = (cycle(values.raw.reshape(-1).tolist() or [0]) for values in (layer.scale, layer.bias))
    return [_mapped(graph, layer, number, scale, bias) for number, scale, bias in zip(x, scales, biases, strict=False)]


def _mapped(graph: AdderGraph, layer: Map, x: Number, scale: int, bias: int) -> Number:
    match layer.function:
        case MapFunction.LEAKY:
            below = Number(graph.clamp(x.node, None, 0), x.fraction)
            return total(graph, relu(graph, x), _times(graph, layer, below, scale))
        case MapFunction.CAP:
            return _clamped(graph, x, bias, layer.bias.fraction)
        case MapFunction.THRESHOLD:
            rest = plus(graph, Number(graph.constant(0), x.fraction), bias, layer.bias.fraction)
            return where_negative(graph, x, total(graph, rest, x, subtract=True))
        case MapFunction.STEP:
            return _stepped(graph, x, (scale, layer.scale.fraction), (bias, layer.bias.fraction))
    line = plus(graph, _times(graph, layer, x, scale), bias, layer.bias.fraction)
    part = _clamped(graph, line, 1, 0)
    return part if layer.function is MapFunction.HARD_SIGMOID else plus(graph, Number(part.node, part.fraction - 1), -1, 0)


def _affine(graph: AdderGraph, layer: Map, x: Numbers) -> list[Number]:
    scales, biases = (np.resize(values.raw, len(x)).tolist() for values in (layer.scale, layer.bias))
    products = [_times(graph, layer, number, scale) for number, scale in zip(x, scales, strict=True)]
    return [plus(graph, y, bias, layer.bias.fraction) for y, bias in zip(products, biases, strict=True)]


def _stepped(graph: AdderGraph, x: Number, above: tuple[int, int], below: tuple[int, int]) -> Number:
    """A step of two thresholds, raw with their fraction bits. x <= below is computed as not (below - x < 0)."""
    one, rests = Number(graph.constant(1), 0), []
    for limit in (above, below):
        at = plus(graph, Number(graph.constant(0), x.fraction), *limit)
        rests.append(total(graph, at, x, subtract=True))
    high, over = (where_negative(graph, one, rest) for rest in rests)
    low = total(graph, one, over, subtract=True)
    both = Number(graph.select(low.node, high.node, 0), 0)
    return total(graph, total(graph, high, low, subtract=True), both)


def _times(graph: AdderGraph, layer: Map, x: Number, factor: int) -> Number:
    return matmul(graph, layer.name, (x,), np.array([[factor]]), layer.scale.fraction)[0]


def _clamped(graph: AdderGraph, x: Number, most: int, fraction: int) -> Number:
    """x, limited to 0 and most * 2**-fraction."""
    common = max(x.fraction, fraction)
    return Number(graph.clamp(at_fraction(graph, x, common), 0, most << (common - fraction)), common)


def _quantise(graph: AdderGraph, layer: Quantise, x: Numbers) -> Sequence[Number]:
    return [cast(graph, number, to) if to else zero(graph) for number, to in zip(x, layer.types, strict=True)]


def _embedding(graph: AdderGraph, layer: Embedding, x: Numbers) -> Sequence[Number]:
    words, fraction = layer.table.raw, layer.table.fraction
    indices = [graph.clamp(at_fraction(graph, number, 0), 0, len(words) - 1) for number in x]
    columns = [tuple(map(int, column)) for column in words.T]
    return [Number(graph.lookup(index, column), fraction) for index in indices for column in columns]


UNROLL = {Map: _map, Quantise: _quantise, Embedding: _embedding}
