# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, at_fraction, cast, relu, scaled, total, tree, zero
from hypersonic.hls.da.places import Places, greatest, taken, window_places
from hypersonic.hls.fixed import Rounding
from hypersonic.hls.network.layers.global_pool import GlobalPool
from hypersonic.hls.network.layers.pool import Pool, PoolOperation


def _pool(graph: AdderGraph, layer: Pool, x: Numbers) -> Sequence[Number]:
    kind = layer.x.precision
    lowest = Number(graph.constant(-(1 << (kind.width - 1)) if kind.signed else 0), kind.fraction)
    places = window_places(layer.x, layer.window)
    return [_pooled(graph, layer, x, pixel[:, c], lowest) for pixel in places for c in range(layer.x.channels)]


def _globalpool(graph: AdderGraph, layer: GlobalPool, x: Numbers) -> Sequence[Number]:
    images = np.arange(layer.x.size).reshape(layer.x.images, -1, layer.x.channels)
    return [_pooled(graph, layer, x, places[:, c], zero(graph)) for places in images for c in range(layer.x.channels)]


def _pooled(graph: AdderGraph, layer: Pool | GlobalPool, x: Numbers, places: Places, lowest: Number) -> Number:
    if layer.operation is PoolOperation.MAX:
        return greatest(graph, taken(x, places, lowest))
    count = len(places) if isinstance(layer, Pool) and layer.count_pad else int((places >= 0).sum())
    mean = cast(graph, tree(graph, taken(x, places, zero(graph))), layer.accum)
    raw = Number(at_fraction(graph, mean, layer.accum.fraction), 0)
    return Number(_quotient(graph, raw, count), layer.accum.fraction)


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


UNROLL = {Pool: _pool, GlobalPool: _globalpool}
