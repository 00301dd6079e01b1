# SPDX-License-Identifier: Apache-2.0
"""A reference for the layers of hls/rf/layers.py in exact Python integers: slow, simple, and compared with hls4ml's C++."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.rf.layers import Layer, RfNetwork, Tensor, Window
from hypersonic.hls.rf.parts.maps import Map, MapFunction
from hypersonic.hls.rf.parts.merges import Merge, MergeOperation
from hypersonic.hls.rf.parts.windows import window_shape
from hypersonic.hls.rf.stages.concatenate import Concatenate
from hypersonic.hls.rf.stages.dense import Dense
from hypersonic.hls.rf.stages.depthwise import Depthwise
from hypersonic.hls.rf.stages.embedding import Embedding
from hypersonic.hls.rf.stages.global_pool import GlobalPool
from hypersonic.hls.rf.stages.layernorm import LayerNorm, normalised_vector
from hypersonic.hls.rf.stages.matmul import Matmul
from hypersonic.hls.rf.stages.permute import Permute
from hypersonic.hls.rf.stages.pool import Pool, PoolOperation
from hypersonic.hls.rf.stages.quantise import Quantise
from hypersonic.hls.rf.stages.recurrent import Cell, Recurrent
from hypersonic.hls.rf.stages.reshape import Reshape
from hypersonic.hls.rf.stages.softmax import Softmax, SoftmaxKind
from hypersonic.hls.rf.stages.table import Table, table_value
from hypersonic.hls.rf.stages.upsample import Upsample
from hypersonic.hls.rf.stages.zero_pad import ZeroPad

Numbers = NDArray[Any]  # of Python integers


def evaluate(network: RfNetwork, x: Numbers) -> Numbers:
    """x: (rows, elements of all inputs) raw -> (rows, elements of all outputs) raw."""
    tensors: dict[str, Numbers] = {}
    at = 0
    for tensor in network.inputs:
        tensors[tensor.name] = x[:, at : at + tensor.size].astype(object)
        at += tensor.size
    for layer in network.layers:
        inputs = [tensors[tensor.name] for tensor in layer.inputs]
        tensors[layer.y.name] = _layer(layer, *inputs).reshape(len(x), -1)
    return np.concatenate([tensors[tensor.name] for tensor in network.outputs], axis=1)


def cast(values: Numbers, fraction: int, to: FixedPoint) -> Numbers:
    return np.frompyfunc(lambda value: to.cast(int(value), fraction), 1, 1)(values)


@singledispatch
def _layer(layer: Layer, *inputs: Numbers) -> Numbers:
    raise TypeError(f"{type(layer).__name__} has no reference")


@_layer.register
def _(layer: Dense, x: Numbers) -> Numbers:
    vectors = x.reshape(len(x), -1, layer.n_in) if layer.window is None else _windows(layer.x, layer.window, x, 0)
    turns = layer.vectors // layer.matrices
    weight = np.tile(layer.weight.raw.reshape(-1, layer.n_in, layer.n_out), (turns, 1, 1)).astype(object)
    return _accumulated(layer, vectors.reshape(len(x), -1, layer.n_in, 1), weight)


@_layer.register
def _(layer: Depthwise, x: Numbers) -> Numbers:
    vectors = _windows(layer.x, layer.window, x, 0).reshape(len(x), -1, layer.window.size, layer.x.channels)
    return _accumulated(layer, vectors, layer.weight.raw.astype(object))


@_layer.register
def _(layer: Pool, x: Numbers) -> Numbers:
    return _pool(layer, x)


@_layer.register
def _(layer: GlobalPool, x: Numbers) -> Numbers:
    images = x.reshape(len(x), layer.x.images, -1, layer.x.channels)
    return _pooled(layer, images, np.full(layer.x.images, images.shape[2]))


@_layer.register
def _(layer: Map, x: Numbers) -> Numbers:
    return _map(layer, x)


@_layer.register
def _(layer: Table, x: Numbers) -> Numbers:
    return np.frompyfunc(lambda value: table_value(layer, layer.x.precision, int(value)), 1, 1)(x)


@_layer.register
def _(layer: Softmax, x: Numbers) -> Numbers:
    return _softmax(layer, x.reshape(-1, layer.x.channels))


@_layer.register
def _(layer: LayerNorm, x: Numbers) -> Numbers:
    return np.array([normalised_vector(layer, list(map(int, vector))) for vector in x.reshape(-1, layer.x.channels)])


@_layer.register
def _(layer: Merge, a: Numbers, b: Numbers) -> Numbers:
    return _merge(layer, a, b)


@_layer.register
def _(layer: Matmul, a: Numbers, b: Numbers) -> Numbers:
    rows = a.reshape(len(a), len(layer.places), -1, 1, layer.n_in)
    columns = b[:, layer.places][:, :, None]
    accum, fraction = layer.accum, layer.a.precision.fraction + layer.b.precision.fraction
    finest = max(fraction, accum.fraction)
    sums = np.zeros(np.broadcast_shapes(rows.shape, columns.shape)[:-1], dtype=object)
    for term in range(layer.n_in):
        products = rows[..., term] * columns[..., term]
        sums = cast((sums << finest - accum.fraction) + (products << finest - fraction), finest, accum)
    return cast(sums, accum.fraction, layer.y.precision)


@_layer.register
def _(layer: Concatenate, *inputs: Numbers) -> Numbers:
    sides = zip(inputs, (layer.a, layer.b), strict=True)
    parts = [cast(v, t.precision.fraction, layer.y.precision).reshape(len(v), *t.shape) for v, t in sides]
    return np.concatenate(parts, axis=layer.axis + 1)


@_layer.register
def _(layer: Reshape, x: Numbers) -> Numbers:
    return x


@_layer.register
def _(layer: Permute, x: Numbers) -> Numbers:
    return x[:, layer.places]


@_layer.register
def _(layer: Upsample, x: Numbers) -> Numbers:
    image = x.reshape(len(x), *layer.x.image)
    return image.repeat(layer.factor[0], axis=1).repeat(layer.factor[1], axis=2)


@_layer.register
def _(layer: ZeroPad, x: Numbers) -> Numbers:
    top, bottom, left, right = layer.pad
    padded = np.pad(x.reshape(len(x), *layer.x.image), ((0, 0), (top, bottom), (left, right), (0, 0)))
    return cast(padded, layer.x.precision.fraction, layer.y.precision)


@_layer.register
def _(layer: Quantise, x: Numbers) -> Numbers:
    fraction, y = layer.x.precision.fraction, layer.y.precision
    return np.array(
        [
            [y.cast(to.cast(int(v), fraction), to.fraction) if to else 0 for v, to in zip(row, layer.types, strict=True)]
            for row in x
        ]
    )


@_layer.register
def _(layer: Recurrent, x: Numbers) -> Numbers:
    states = np.array([_states(layer, row.reshape(layer.steps, layer.units, layer.cell)) for row in x], dtype=object)
    return states if layer.sequences else states[:, -1]


@_layer.register
def _(layer: Embedding, x: Numbers) -> Numbers:
    return layer.table.raw[np.minimum(x.astype(np.int64), len(layer.table.raw) - 1)]


def _states(layer: Recurrent, steps: Numbers) -> Numbers:
    """The states of one row, from its products with the input (steps, units, gates)."""
    accum, y = layer.accum, layer.y.precision
    fraction, weight = accum.fraction, layer.weight.raw.astype(object)
    start = cast(layer.bias.raw.astype(object), layer.bias.fraction, accum)
    held = state = np.zeros(layer.units, dtype=object)
    given = []
    for of_x in steps:
        products = cast(state[:, None] * weight, y.fraction + layer.weight.fraction, accum)
        sums = np.frompyfunc(accum.confine, 1, 1)(products.sum(axis=0) + start)
        of_h = sums.reshape(layer.units, layer.cell)
        if layer.cell is Cell.LSTM:
            i, f, c, o = cast(of_x + of_h, fraction, accum).T
            i, f, o, c = _looked(layer.gate, i), _looked(layer.gate, f), _looked(layer.gate, o), _looked(layer.act, c)
            held = _mixed(layer, c * i, held * f)
            state = cast(o * _looked(layer.late_act, held), 2 * fraction, y)
        else:
            z, r = (_looked(layer.gate, cast(of_x[:, g] + of_h[:, g], fraction, accum)) for g in (0, 1))
            h = cast(of_x[:, 2] + cast(r * of_h[:, 2], 2 * fraction, accum), fraction, accum)
            state = _mixed(layer, _looked(layer.act, h) * ((1 << fraction) - z), state * z)
        given.append(state)
    return np.array(given)


def _mixed(layer: Recurrent, new: Numbers, old: Numbers) -> Numbers:
    """y(new + old): a product of numbers of type accum and one of such a number with a state."""
    fraction, y = layer.accum.fraction, layer.y.precision
    finer = max(fraction, y.fraction)
    return cast((new << (finer - fraction)) + (old << (finer - y.fraction)), fraction + finer, y)


def _looked(table: Table, x: Numbers) -> Numbers:
    return np.frompyfunc(lambda value: table_value(table, table.x.precision, int(value)), 1, 1)(x)


def _windows(tensor: Tensor, seen: Window, x: Numbers, pad_value: int) -> Numbers:
    """(rows, output pixels of all images, kernel pixels, channels)."""
    pads = ((0, 0), (seen.pad_top, seen.pad_bottom), (seen.pad_left, seen.pad_right), (0, 0))
    image = np.pad(x.reshape(-1, *tensor.image), pads, constant_values=pad_value)
    height, width = window_shape(tensor, seen)
    columns = [
        image[:, kh : kh + height * seen.stride[0] : seen.stride[0], kw : kw + width * seen.stride[1] : seen.stride[1]][
            :, :height, :width
        ]
        for kh in range(seen.kernel[0])
        for kw in range(seen.kernel[1])
    ]
    return np.stack(columns, axis=3).reshape(len(x), -1, seen.size, tensor.channels)


def _accumulated(layer: Dense | Depthwise, vectors: Numbers, weight: Numbers) -> Numbers:
    fraction = layer.x.precision.fraction + layer.weight.fraction
    products = cast(vectors * weight, fraction, layer.accum)
    bias = cast(layer.bias.raw.astype(object), layer.bias.fraction, layer.accum)
    starts = np.resize(bias, products.sum(axis=2).shape[1:])
    sums = np.frompyfunc(layer.accum.confine, 1, 1)(products.sum(axis=2) + starts)
    return cast(sums, layer.accum.fraction, layer.y.precision)


def _pool(layer: Pool, x: Numbers) -> Numbers:
    kind = layer.x.precision
    pad = -(1 << (kind.width - 1)) if layer.operation is PoolOperation.MAX and kind.signed else 0
    vectors = _windows(layer.x, layer.window, x, pad)
    inside = _windows(layer.x, layer.window, np.ones((1, layer.x.size), dtype=object), 0)[0, :, :, 0].sum(axis=1)
    return _pooled(layer, vectors, np.full(len(inside), layer.window.size) if layer.count_pad else inside)


def _pooled(layer: Pool | GlobalPool, vectors: Numbers, counts: Numbers) -> Numbers:
    fraction = layer.x.precision.fraction
    if layer.operation is PoolOperation.MAX:
        return cast(vectors.max(axis=2), fraction, layer.y.precision)
    shift = layer.accum.fraction - fraction
    sums = np.frompyfunc(layer.accum.confine, 1, 1)(vectors.sum(axis=2) << shift)
    quotients = np.abs(sums) // counts.astype(object)[:, None] * np.sign(sums)
    return cast(quotients, layer.accum.fraction, layer.y.precision)


def _numbers(values: Constants, like: Numbers) -> Numbers:
    return np.resize(values.raw.astype(object), like.shape[1]) if values.raw.size else np.zeros(1, dtype=object)


def _map(layer: Map, x: Numbers) -> Numbers:
    scale, bias, fraction = _numbers(layer.scale, x), _numbers(layer.bias, x), layer.x.precision.fraction
    grid = max(fraction + max(layer.scale.fraction, 0), layer.scale.fraction, layer.bias.fraction, 0)
    fine, one = x << (grid - fraction), 1 << grid
    scaled = (x * scale) << (grid - fraction - layer.scale.fraction)
    shifted = bias << (grid - layer.bias.fraction)
    match layer.function:
        case MapFunction.LINEAR:
            y = fine
        case MapFunction.RELU:
            y = np.where(fine > 0, fine, 0)
        case MapFunction.LEAKY:
            y = np.where(fine > 0, fine, scaled)
        case MapFunction.AFFINE:
            y = scaled + shifted
        case MapFunction.CAP:
            y = np.clip(fine, 0, shifted)
        case MapFunction.THRESHOLD:
            y = np.where(fine > shifted, fine, 0)
        case MapFunction.STEP:
            above, below = fine > scale << (grid - layer.scale.fraction), fine > shifted
            y = np.where(above, one, np.where(below, 0, -one))
        case MapFunction.HARD_SIGMOID:
            y = np.clip(scaled + shifted, 0, one)
        case MapFunction.HARD_TANH:
            y = 2 * np.clip(scaled + shifted, 0, one) - one
    return cast(y, grid, layer.y.precision)


def _merge(layer: Merge, a: Numbers, b: Numbers) -> Numbers:
    grid = max(layer.a.precision.fraction, layer.b.precision.fraction)
    fine_a, fine_b = a << (grid - layer.a.precision.fraction), b << (grid - layer.b.precision.fraction)
    y, fraction = {
        MergeOperation.ADD: (fine_a + fine_b, grid),
        MergeOperation.SUBTRACT: (fine_a - fine_b, grid),
        MergeOperation.MULTIPLY: (fine_a * fine_b, 2 * grid),
        MergeOperation.AVERAGE: (fine_a + fine_b, grid + 1),
        MergeOperation.MAXIMUM: (np.maximum(fine_a, fine_b), grid),
        MergeOperation.MINIMUM: (np.minimum(fine_a, fine_b), grid),
    }[layer.operation]
    return cast(y, fraction, layer.y.precision)


def _softmax(layer: Softmax, x: Numbers) -> Numbers:
    to = layer.y.precision
    if layer.kind is SoftmaxKind.ARGMAX:
        y = np.full(x.shape, to.cast(0, 0), dtype=object)
        y[np.arange(len(x)), x.argmax(axis=1)] = to.cast(1, 0)
        return y
    d, kind = x, layer.x.precision
    if layer.kind is SoftmaxKind.STABLE:
        d, kind = cast(x.max(axis=1, keepdims=True) - x, layer.x.precision.fraction, layer.normalised), layer.normalised
    e = cast(layer.exp_table.raw.astype(object)[_top(d, kind, len(layer.exp_table.raw))], layer.exp_table.fraction, layer.accum)
    total = np.frompyfunc(layer.accum.confine, 1, 1)(e.sum(axis=1))
    address = cast(total, layer.accum.fraction, layer.inverse_input)
    r = layer.inv_table.raw.astype(object)[_top(address, layer.inverse_input, len(layer.inv_table.raw))]
    return cast(e * r[:, None], layer.accum.fraction + layer.inv_table.fraction, to)


def _top(values: Numbers, kind: FixedPoint, size: int) -> NDArray[np.int64]:
    bits = (values % (1 << kind.width)).astype(np.int64)
    return bits >> (kind.width - (size.bit_length() - 1))
