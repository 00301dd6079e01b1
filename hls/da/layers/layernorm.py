# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization, as hls4ml's C++ computes it (nnet_layernorm.h)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, cast, plus, product, scaled, total, zero
from hypersonic.hls.da.products import check_weights, matmul
from hypersonic.hls.fixed import Rounding
from hypersonic.hls.network.layers.layernorm import LayerNorm


def _layernorm(graph: AdderGraph, layer: LayerNorm, x: Numbers) -> list[Number]:
    """Return the normalised numbers, vector after vector."""
    check_weights(layer.name, layer.scale.raw)
    channels = len(layer.scale.raw)
    return [y for at in range(0, len(x), channels) for y in _vector(graph, layer, x[at : at + channels])]


def _vector(graph: AdderGraph, layer: LayerNorm, x: Numbers) -> list[Number]:
    accum = layer.accum
    inputs = [cast(graph, number, accum) for number in x]
    mean = _mean(graph, layer, inputs)
    rests = [cast(graph, total(graph, number, mean, subtract=True), accum) for number in inputs]
    variance = _mean(graph, layer, [cast(graph, product(graph, rest, rest), accum) for rest in rests])
    factor = _looked_up(graph, layer, variance)
    given = []
    for rest, scale, bias in zip(rests, layer.scale.raw, layer.bias.raw, strict=True):
        y = matmul(graph, layer.name, (product(graph, rest, factor),), np.array([[int(scale)]]), layer.scale.fraction)[0]
        given.append(plus(graph, y, int(bias), layer.bias.fraction))
    return given


def _mean(graph: AdderGraph, layer: LayerNorm, x: Sequence[Number]) -> Number:
    """The sum in accum, number by number, times 1 / channels."""
    y = zero(graph)
    for number in x:
        y = cast(graph, total(graph, y, number), layer.accum)
    part = scaled(graph, y, layer.share) if layer.share else zero(graph)
    return cast(graph, Number(part.node, part.fraction + layer.accum.fraction), layer.accum)


def _looked_up(graph: AdderGraph, layer: LayerNorm, variance: Number) -> Number:
    size = len(layer.values.raw)
    steps = scaled(graph, variance, size)
    lost = steps.fraction - layer.spread
    whole = graph.drop(steps.node, lost, Rounding.TRN_ZERO) if lost > 0 else graph.shift(steps.node, -lost)
    found = graph.lookup(graph.clamp(whole, 0, size - 1), tuple(map(int, layer.values.raw)))
    return Number(found, layer.values.fraction)


UNROLL = {LayerNorm: _layernorm}
