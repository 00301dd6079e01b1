# SPDX-License-Identifier: Apache-2.0
"""Operations on two tensors, and sums of products of two."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, cast, merged, product, summed
from hypersonic.hls.da.products import check_count
from hypersonic.hls.network.layers.dot import Dot
from hypersonic.hls.network.layers.matmul import Matmul
from hypersonic.hls.network.layers.merge import Merge


def _merge(graph: AdderGraph, layer: Merge, a: Numbers, b: Numbers) -> Iterable[Number]:
    return (merged(graph, layer.operation, x, y) for x, y in zip(a, b, strict=True))


def _dot(graph: AdderGraph, layer: Dot, a: Numbers, b: Numbers) -> Iterable[Number]:
    products = [cast(graph, product(graph, x, y), layer.accum) for x, y in zip(a, b, strict=True)]
    return [summed(graph, products, layer.accum)]


def _matmul(graph: AdderGraph, layer: Matmul, a: Numbers, b: Numbers) -> Iterable[Number]:
    check_count(layer.name, layer.y.size * layer.n_in)
    vectors = np.arange(len(a)).reshape(len(layer.places), -1, layer.n_in)
    return [
        summed(graph, [product(graph, a[i], b[j]) for i, j in zip(left, right, strict=True)], layer.accum)
        for lefts, rights in zip(vectors.tolist(), layer.places.tolist(), strict=True)
        for left in lefts
        for right in rights
    ]


UNROLL = {Merge: _merge, Dot: _dot, Matmul: _matmul}
