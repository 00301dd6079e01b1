# SPDX-License-Identifier: Apache-2.0
"""Layers of a network by hand, each with a result that is called as the layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Layer, Network, Tensor
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.dot import Dot
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.layers.permute import Permute

_NONE = Constants(np.zeros(0, np.int64), 0)


def vector(name: str, size: int, precision: FixedPoint) -> Tensor:
    return Tensor(name, (size,), precision)


def network(name: str, inputs: Sequence[Tensor], layers: Sequence[Layer], outputs: Sequence[str]) -> Network:
    """outputs: names of layers."""
    results = {layer.y.name: layer.y for layer in layers}
    return Network(name, tuple(inputs), tuple(results[output] for output in outputs), tuple(layers))


def dense(name: str, x: Tensor, weight: Constants, bias: Constants, accum: FixedPoint, result: FixedPoint) -> Dense:
    return Dense(name, x, vector(name, weight.raw.shape[1], result), weight, bias, accum, 1, 1)


def scaling(name: str, x: Tensor, scale: Constants, bias: Constants, result: FixedPoint) -> Map:
    return Map(name, x, vector(name, x.size, result), MapFunction.AFFINE, scale, bias)


def activation(name: str, x: Tensor, relu: bool, result: FixedPoint) -> Map:
    """A ReLU, or a cast alone."""
    function = MapFunction.RELU if relu else MapFunction.LINEAR
    return Map(name, x, vector(name, x.size, result), function, _NONE, _NONE)


def merge(name: str, a: Tensor, b: Tensor, operation: MergeOperation, result: FixedPoint) -> Merge:
    return Merge(name, a, b, vector(name, a.size, result), operation)


def dot(name: str, a: Tensor, b: Tensor, accum: FixedPoint, result: FixedPoint) -> Dot:
    return Dot(name, a, b, vector(name, 1, result), accum, 1, 1)


def concatenation(name: str, a: Tensor, b: Tensor, result: FixedPoint, turns: int = 1) -> Concatenate:
    """turns: rows of both tensors, which follow one another row by row."""
    rows = [replace(tensor, shape=(turns, tensor.size // turns)) for tensor in (a, b)]
    y = Tensor(name, (turns, sum(row.channels for row in rows)), result)
    return Concatenate(name, rows[0], rows[1], y, 1)


def moved(name: str, x: Tensor, places: Sequence[int]) -> Permute:
    """Elements of x, in its type."""
    return Permute(name, x, vector(name, len(places), x.precision), np.array(places, dtype=np.int64))
