# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization, as hls4ml's C++ computes it (nnet_layernorm.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.network import LayerNormalization
from hypersonic.hls.da.numbers import Number, Numbers, cast, plus, product, scaled, total, zero
from hypersonic.hls.da.products import check_weights, matmul
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Rounding
from hypersonic.hls.model_graph import precision_of, result_precision, written_constants


def read_layer_normalization(layer: Any, sources: tuple[str, ...]) -> LayerNormalization:
    """Read hls4ml's LayerNormalization. Raises UnsupportedLayerError for types with which the C++ reads another entry."""
    accum, table = (precision_of(layer.get_attr(f"{name}_t").precision, f"layer {layer.name!r}: {name}") for name in _TYPES)
    size, spread = int(layer.get_attr("table_size")), int(layer.get_attr("table_range_power2"))
    if accum.integer + size.bit_length() - 1 + spread > 31:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: accum is {accum}, whose index of {size} entries does not fit the C++'s int; {INSTEAD}"
        )
    epsilon = int(layer.get_attr("epsilon_power_of_10"))
    scale = written_constants(layer, "scale")
    share = int(accum.from_float(np.array([1.0 / len(scale.raw)]))[0])
    values = _values(size, epsilon, spread, table)
    return LayerNormalization(
        layer.name, sources[0], scale, written_constants(layer, "bias"), share, accum, values, spread, result_precision(layer)
    )


_TYPES = ("accum", "table")


def _values(size: int, epsilon: int, spread: int, kind: FixedPoint) -> Constants:
    """The table of init_invert_sqr_table: 1 / sqrt(x) for x from 10**-epsilon in steps of 2**-spread / size."""
    least, step = np.float32(10.0**-epsilon), np.float32(2.0**-spread) / np.float32(size)
    points = least + step * np.arange(size, dtype=np.float32)
    return Constants(kind.from_float(1.0 / np.sqrt(points).astype(np.float64)), kind.fraction)


def layer_normalization(graph: AdderGraph, layer: LayerNormalization, x: Numbers) -> list[Number]:
    """Return the normalised numbers, vector after vector."""
    check_weights(layer.name, layer.scale.raw)
    channels = len(layer.scale.raw)
    return [y for at in range(0, len(x), channels) for y in _vector(graph, layer, x[at : at + channels])]


def _vector(graph: AdderGraph, layer: LayerNormalization, x: Numbers) -> list[Number]:
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


def _mean(graph: AdderGraph, layer: LayerNormalization, x: Sequence[Number]) -> Number:
    """The sum in accum, number by number, times 1 / channels."""
    y = zero(graph)
    for number in x:
        y = cast(graph, total(graph, y, number), layer.accum)
    part = scaled(graph, y, layer.share) if layer.share else zero(graph)
    return cast(graph, Number(part.node, part.fraction + layer.accum.fraction), layer.accum)


def _looked_up(graph: AdderGraph, layer: LayerNormalization, variance: Number) -> Number:
    size = len(layer.values.raw)
    steps = scaled(graph, variance, size)
    lost = steps.fraction - layer.spread
    whole = graph.drop(steps.node, lost, Rounding.TRN_ZERO) if lost > 0 else graph.shift(steps.node, -lost)
    found = graph.lookup(graph.clamp(whole, 0, size - 1), tuple(map(int, layer.values.raw)))
    return Number(found, layer.values.fraction)
