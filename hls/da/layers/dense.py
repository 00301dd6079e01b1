# SPDX-License-Identifier: Apache-2.0
"""Dense layers, and convolutions, whose vectors are windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, zero
from hypersonic.hls.da.places import Places, taken, window_places
from hypersonic.hls.da.products import Matrix, check_count, dense
from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.depthwise import Depthwise


def _dense(graph: AdderGraph, layer: Dense, x: Numbers) -> Sequence[Number]:
    if layer.vectors == 1 and layer.window is None:
        return dense(graph, Matrix(layer.name, layer.weight, layer.bias, layer.accum), x)
    places = np.arange(layer.x.size) if layer.window is None else window_places(layer.x, layer.window)
    vectors = places.reshape(-1, layer.n_in)
    check_count(layer.name, len(vectors) * layer.n_in * layer.n_out)
    weights, biases = layer.weight.raw.reshape(-1, layer.n_in, layer.n_out), layer.bias.raw.reshape(-1, layer.n_out)
    found: dict[int, list[Number]] = {}
    for turn, weight in enumerate(weights):  # all vectors of a matrix, then those of the next
        for at in range(turn, len(vectors), len(weights)):
            bias = Constants(biases[at % len(biases)], layer.bias.fraction)
            matrix = Matrix(layer.name, Constants(weight, layer.weight.fraction), bias, layer.accum)
            found[at] = dense(graph, matrix, taken(x, vectors[at], zero(graph)))
    return [y for at in range(len(vectors)) for y in found[at]]


def _depthwise(graph: AdderGraph, layer: Depthwise, x: Numbers) -> Sequence[Number]:
    places, (weight, bias) = window_places(layer.x, layer.window), (layer.weight, layer.bias)
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
    """Apply a matrix to each vector of elements.

    Args:
        places: (vectors, n_in).
    """
    matrix = Matrix(layer.name, weight, bias, layer.accum)
    return [y for vector in places for y in dense(graph, matrix, taken(x, vector, zero(graph)))]


UNROLL = {Dense: _dense, Depthwise: _depthwise}
