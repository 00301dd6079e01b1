# SPDX-License-Identifier: Apache-2.0
"""Layers of hls/network/ computed all at once, with a place in the graph for each number.

The class of a layer says what it computes. Numbers are returned before the cast to the layer's result type,
unless that cast is a part of the layer; casting twice to one type changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import cycle
from math import prod

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da.cells import gru, looked_up, lstm
from hypersonic.hls.da.garnet import garnet
from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.normalise import layer_normalization
from hypersonic.hls.da.numbers import (
    Number,
    Numbers,
    at_fraction,
    cast,
    greater,
    merged,
    plus,
    product,
    relu,
    scaled,
    summed,
    total,
    tree,
    where_negative,
    zero,
)
from hypersonic.hls.da.products import Matrix, check_count, check_weights, dense, matmul
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Rounding
from hypersonic.hls.network.base import Layer, Tensor, Window
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.depthwise import Depthwise
from hypersonic.hls.network.layers.dot import Dot
from hypersonic.hls.network.layers.embedding import Embedding
from hypersonic.hls.network.layers.garnet import GarNet
from hypersonic.hls.network.layers.global_pool import GlobalPool
from hypersonic.hls.network.layers.layernorm import LayerNorm
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.matmul import Matmul
from hypersonic.hls.network.layers.merge import Merge
from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.network.layers.pool import Pool, PoolOperation
from hypersonic.hls.network.layers.quantise import Quantise
from hypersonic.hls.network.layers.recurrent import Cell, Recurrent
from hypersonic.hls.network.layers.reshape import Reshape
from hypersonic.hls.network.layers.softmax import Softmax, SoftmaxKind
from hypersonic.hls.network.layers.table import Table
from hypersonic.hls.network.layers.upsample import Upsample
from hypersonic.hls.network.layers.zero_pad import ZeroPad
from hypersonic.hls.network.raw import cast_all
from hypersonic.hls.network.windows import window_elements

#: indices of elements, -1 for padding
Places = NDArray[np.int64]


def unrolled(graph: AdderGraph, layer: Layer, *inputs: Numbers) -> Iterable[Number]:
    """Return the layer's numbers. inputs: those of its inputs. They may be computed lazily, one by one.

    Raises UnsupportedLayerError, with the layer's name, for arithmetic that adders cannot do exactly.
    """
    return _unrolled(layer, graph, *inputs)


@singledispatch
def _unrolled(layer: Layer, graph: AdderGraph, *inputs: Numbers) -> Iterable[Number]:  # noqa: ARG001 - the registered ones use them
    raise UnsupportedLayerError(f"layer {layer.name!r}: the da core has no {type(layer).__name__}; {INSTEAD}")


def _taken(x: Numbers, places: Places, instead: Number) -> list[Number]:
    return [x[place] if place >= 0 else instead for place in places.reshape(-1).tolist()]


# ---------------------------------------------------------------- products with constants
def _windows(tensor: Tensor, seen: Window) -> Places:
    """Return the elements of each window: (output pixels of all images, kernel pixels, channels)."""
    places: Places = window_elements(tensor, seen, np.arange(tensor.size)[None], -1)[0]
    return places


@_unrolled.register
def _(layer: Dense, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    if layer.vectors == 1 and layer.window is None:
        return dense(graph, Matrix(layer.name, layer.weight, layer.bias, layer.accum), x)
    places = np.arange(layer.x.size) if layer.window is None else _windows(layer.x, layer.window)
    vectors = places.reshape(-1, layer.n_in)
    check_count(layer.name, len(vectors) * layer.n_in * layer.n_out)
    weights, biases = layer.weight.raw.reshape(-1, layer.n_in, layer.n_out), layer.bias.raw.reshape(-1, layer.n_out)
    found: dict[int, list[Number]] = {}
    for turn, weight in enumerate(weights):  # all vectors of a matrix, then those of the next
        for at in range(turn, len(vectors), len(weights)):
            bias = Constants(biases[at % len(biases)], layer.bias.fraction)
            matrix = Matrix(layer.name, Constants(weight, layer.weight.fraction), bias, layer.accum)
            found[at] = dense(graph, matrix, _taken(x, vectors[at], zero(graph)))
    return [y for at in range(len(vectors)) for y in found[at]]


@_unrolled.register
def _(layer: Depthwise, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    places, (weight, bias) = _windows(layer.x, layer.window), (layer.weight, layer.bias)
    check_count(layer.name, len(places) * layer.weight.raw.size)
    channels = [
        _vectors(
            graph, layer, x, places[:, :, c],
            Constants(weight.raw[:, [c]], weight.fraction), Constants(bias.raw[[c]], bias.fraction),
        )
        for c in range(layer.x.channels)
    ]  # fmt: skip
    return [number for pixel in zip(*channels, strict=True) for number in pixel]


def _vectors(
    graph: AdderGraph, layer: Depthwise, x: Numbers, places: Places, weight: Constants, bias: Constants
) -> list[Number]:
    """Apply a matrix to each vector of elements. places: (vectors, n_in)."""
    matrix = Matrix(layer.name, weight, bias, layer.accum)
    return [y for vector in places for y in dense(graph, matrix, _taken(x, vector, zero(graph)))]


# ---------------------------------------------------------------- pooling
@_unrolled.register
def _(layer: Pool, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    kind = layer.x.precision
    lowest = Number(graph.constant(-(1 << (kind.width - 1)) if kind.signed else 0), kind.fraction)
    places = _windows(layer.x, layer.window)
    return [_pooled(graph, layer, x, pixel[:, c], lowest) for pixel in places for c in range(layer.x.channels)]


@_unrolled.register
def _(layer: GlobalPool, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    images = np.arange(layer.x.size).reshape(layer.x.images, -1, layer.x.channels)
    return [_pooled(graph, layer, x, places[:, c], zero(graph)) for places in images for c in range(layer.x.channels)]


def _pooled(graph: AdderGraph, layer: Pool | GlobalPool, x: Numbers, places: Places, lowest: Number) -> Number:
    if layer.operation is PoolOperation.MAX:
        return _greatest(graph, _taken(x, places, lowest))
    count = len(places) if isinstance(layer, Pool) and layer.count_pad else int((places >= 0).sum())
    mean = cast(graph, tree(graph, _taken(x, places, zero(graph))), layer.accum)
    raw = Number(at_fraction(graph, mean, layer.accum.fraction), 0)
    return Number(_quotient(graph, raw, count), layer.accum.fraction)


def _greatest(graph: AdderGraph, x: Sequence[Number]) -> Number:
    if len(x) == 1:
        return x[0]
    half = len(x) // 2
    return greater(graph, _greatest(graph, x[:half]), _greatest(graph, x[half:]))


def _quotient(graph: AdderGraph, x: Number, count: int) -> int:
    """The node of x / count, towards zero, for an integer x.

    For count * magnitude < 2**point, floor(n / count) is n * ceil(2**point / count) >> point for every n up to the magnitude.
    """
    if count & (count - 1) == 0:
        return graph.drop(x.node, count.bit_length() - 1, Rounding.TRN_ZERO)
    low, high = graph.range(x.node)
    point = (max(-low, high) * count).bit_length()
    factor = -(-(1 << point) // count)
    sides = relu(graph, x), relu(graph, total(graph, zero(graph), x, subtract=True))
    above, below = (graph.drop(scaled(graph, side, factor).node, point, Rounding.TRN) for side in sides)
    return graph.add(above, below, subtract=True)


@_unrolled.register
def _(layer: LayerNorm, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    return layer_normalization(graph, layer, x)


# ---------------------------------------------------------------- elementwise
@_unrolled.register
def _(layer: Map, graph: AdderGraph, x: Numbers) -> Iterable[Number]:
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
    """A step of two thresholds, raw with their fraction bits. x <= below is below - x >= 0, which is not below - x < 0."""
    one, rests = Number(graph.constant(1), 0), []
    for limit in (above, below):
        at = plus(graph, Number(graph.constant(0), x.fraction), *limit)
        rests.append(total(graph, at, x, subtract=True))
    high, over = (where_negative(graph, one, rest) for rest in rests)
    low = total(graph, one, over, subtract=True)
    both = Number(graph.select(low.node, high.node, 0), 0)
    return total(graph, total(graph, high, low, subtract=True), both)


def _times(graph: AdderGraph, layer: Map | Table, x: Number, factor: int) -> Number:
    return matmul(graph, layer.name, (x,), np.array([[factor]]), layer.scale.fraction)[0]


def _clamped(graph: AdderGraph, x: Number, most: int, fraction: int) -> Number:
    """x, limited to 0 and most * 2**-fraction."""
    common = max(x.fraction, fraction)
    return Number(graph.clamp(at_fraction(graph, x, common), 0, most << (common - fraction)), common)


@_unrolled.register
def _(layer: Quantise, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    return [cast(graph, number, to) if to else zero(graph) for number, to in zip(x, layer.types, strict=True)]


@_unrolled.register
def _(layer: Table, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    return [looked_up(graph, layer, number) for number in x]


@_unrolled.register
def _(layer: Embedding, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    words, fraction = layer.table.raw, layer.table.fraction
    indices = [graph.clamp(at_fraction(graph, number, 0), 0, len(words) - 1) for number in x]
    columns = [tuple(map(int, column)) for column in words.T]
    return [Number(graph.lookup(index, column), fraction) for index in indices for column in columns]


# ---------------------------------------------------------------- softmax
@_unrolled.register
def _(layer: Softmax, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    classes = layer.x.channels
    rows = [x[at : at + classes] for at in range(0, len(x), classes)]
    each = _argmax if layer.kind is SoftmaxKind.ARGMAX else _softmax
    return [y for row in rows for y in each(graph, layer, row)]


def _argmax(graph: AdderGraph, layer: Softmax, x: Numbers) -> list[Number]:
    """1 for the first of the greatest: no earlier one is as great, and no later one is greater."""
    greatest, one = _greatest(graph, x), Number(graph.constant(1), 0)
    below = [where_negative(graph, one, total(graph, number, greatest, subtract=True)) for number in x]
    del layer
    first, answers = one, []
    for less in below:
        answers.append(total(graph, first, Number(graph.select(first.node, less.node, 0), 0), subtract=True))
        first = Number(graph.select(first.node, less.node, 0), 0)
    return answers


def _softmax(graph: AdderGraph, layer: Softmax, x: Numbers) -> list[Number]:
    kind, terms = layer.x.precision, x
    if layer.kind is SoftmaxKind.STABLE:
        greatest, kind = _greatest(graph, x), layer.normalised
        terms = tuple(cast(graph, total(graph, greatest, number, subtract=True), kind) for number in x)
    powers = tuple(cast_all(layer.exp_table, layer.accum))
    e = [Number(graph.lookup(_address(graph, term, kind, len(powers)), powers), layer.accum.fraction) for term in terms]
    summed = cast(graph, cast(graph, tree(graph, e), layer.accum), layer.inverse_input)
    inverses = tuple(map(int, layer.inv_table.raw))
    r = Number(graph.lookup(_address(graph, summed, layer.inverse_input, len(inverses)), inverses), layer.inv_table.fraction)
    return [product(graph, power, r) for power in e]


def _address(graph: AdderGraph, x: Number, kind: FixedPoint, size: int) -> int:
    """The top bits of x in its type, which address a table of `size` entries."""
    bits = graph.wrap(at_fraction(graph, x, kind.fraction), kind.width, signed=False)
    return graph.drop(bits, kind.width - (size.bit_length() - 1), Rounding.TRN)


# ---------------------------------------------------------------- two inputs
@_unrolled.register
def _(layer: Merge, graph: AdderGraph, a: Numbers, b: Numbers) -> Iterable[Number]:
    return (merged(graph, layer.operation, x, y) for x, y in zip(a, b, strict=True))


@_unrolled.register
def _(layer: Dot, graph: AdderGraph, a: Numbers, b: Numbers) -> Iterable[Number]:
    products = [cast(graph, product(graph, x, y), layer.accum) for x, y in zip(a, b, strict=True)]
    return [summed(graph, products, layer.accum)]


@_unrolled.register
def _(layer: Matmul, graph: AdderGraph, a: Numbers, b: Numbers) -> Iterable[Number]:
    check_count(layer.name, layer.y.size * layer.n_in)
    vectors = np.arange(len(a)).reshape(len(layer.places), -1, layer.n_in)
    return [
        summed(graph, [product(graph, a[i], b[j]) for i, j in zip(left, right, strict=True)], layer.accum)
        for lefts, rights in zip(vectors.tolist(), layer.places.tolist(), strict=True)
        for left in lefts
        for right in rights
    ]


@_unrolled.register
def _(layer: Concatenate, graph: AdderGraph, a: Numbers, b: Numbers) -> Iterable[Number]:
    del graph
    runs = [prod(tensor.shape[layer.axis :]) for tensor in layer.inputs]
    turns = zip(*(_runs(numbers, run) for numbers, run in zip((a, b), runs, strict=True)), strict=True)
    return [y for left, right in turns for y in (*left, *right)]


def _runs(numbers: Numbers, length: int) -> Iterable[Numbers]:
    return (numbers[at : at + length] for at in range(0, len(numbers), length))


@_unrolled.register
def _(layer: GarNet, graph: AdderGraph, a: Numbers, b: Numbers) -> Iterable[Number]:
    return garnet(graph, layer, a, b)


# ---------------------------------------------------------------- wires
@_unrolled.register
def _(_layer: Reshape, _graph: AdderGraph, x: Numbers) -> Iterable[Number]:
    return x


@_unrolled.register
def _(layer: Permute, graph: AdderGraph, x: Numbers) -> Iterable[Number]:
    del graph
    return [x[place] for place in layer.places.tolist()]


@_unrolled.register
def _(layer: Upsample, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    image = np.arange(prod(layer.x.image)).reshape(layer.x.image)
    return _taken(x, image.repeat(layer.factor[0], axis=0).repeat(layer.factor[1], axis=1), zero(graph))


@_unrolled.register
def _(layer: ZeroPad, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    top, bottom, left, right = layer.pad
    image = np.arange(prod(layer.x.image)).reshape(layer.x.image)
    return _taken(x, np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=-1), zero(graph))


# ---------------------------------------------------------------- recurrent layers, all their steps at once
@_unrolled.register
def _(layer: Recurrent, graph: AdderGraph, x: Numbers) -> Sequence[Number]:
    check_count(layer.name, layer.steps * layer.weight.raw.size)
    matrix = Matrix(layer.name, layer.weight, layer.bias, layer.accum)
    unit = lstm if layer.cell is Cell.LSTM else gru
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
