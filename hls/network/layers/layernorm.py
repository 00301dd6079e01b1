# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization over the last dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.attributes import check_parallel, constants, fixed, precision, refuse
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers


@dataclass(frozen=True, eq=False)
class LayerNorm(OneInput):
    """Each vector of the last dimension to mean 0 and variance 1; nnet_layernorm.h.

    mean(v) = accum(sum(v) * share), the sum in accum, element by element. d = accum(accum(x) - mean(accum(x))), i =
    int(mean(accum(d * d)) * size * 2**spread), towards zero, from 0 to size - 1. y = result(d * values[i] * scale + bias).

    Attributes:
        scale, bias: (channels,).
        share: 1 / channels, raw, of type accum.
        values: (size,).
    """

    scale: Constants
    bias: Constants
    share: int
    accum: FixedPoint
    values: Constants
    spread: int

    @property
    def index_fraction(self) -> int:
        """Fraction bits of the variance times the table's size."""
        return self.accum.fraction - self.spread


def normalised_vector(layer: LayerNorm, x: list[int]) -> list[int]:
    """Return the raw results that the C++ gives for one vector of raw inputs."""
    accum, size = layer.accum, len(layer.values.raw)
    inputs = [accum.cast(value, layer.x.precision.fraction) for value in x]
    mean = _mean(layer, inputs)
    rests = [accum.cast(value - mean, accum.fraction) for value in inputs]
    variance = _mean(layer, [accum.cast(rest * rest, 2 * accum.fraction) for rest in rests])
    unit = layer.index_fraction
    index = max(variance, 0) * size >> unit if unit >= 0 else max(variance, 0) * size << -unit
    factor = int(layer.values.raw[min(index, size - 1)])
    left, right, fraction = _lefts(layer)
    sums = [
        (rest * factor * int(scale) << left) + (int(bias) << right)
        for rest, scale, bias in zip(rests, layer.scale.raw, layer.bias.raw, strict=True)
    ]
    return [layer.y.precision.cast(value, fraction) for value in sums]


def _mean(layer: LayerNorm, numbers: list[int]) -> int:
    accum, y = layer.accum, 0
    for number in numbers:
        y = accum.cast(y + number, accum.fraction)
    return accum.cast(y * layer.share, 2 * accum.fraction)


def _lefts(layer: LayerNorm) -> tuple[int, int, int]:
    """Return by how much the product and the bias are shifted left before they are added, and the sum's fraction bits."""
    product, bias = layer.accum.fraction + layer.values.fraction + layer.scale.fraction, layer.bias.fraction
    fraction = max(product, bias)
    return fraction - product, fraction - bias, fraction


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> LayerNorm:
    """Read hls4ml's LayerNormalization. Raises UnsupportedLayerError for types with which the C++ reads another entry."""
    check_parallel(layer)
    accum, table = (precision(layer, name) for name in ("accum_t", "table_t"))
    size, spread = int(layer.get_attr("table_size")), int(layer.get_attr("table_range_power2"))
    if accum.integer + size.bit_length() - 1 + spread > 31:
        raise refuse(layer, f"accum is {accum}, whose index of {size} entries does not fit the C++'s int")
    fixed(layer, accum, "accum_t")
    fixed(layer, table, "table_t")
    scale = constants(layer, "scale")
    share = int(accum.from_float(np.array([1.0 / len(scale.raw)]))[0])
    values = _values(size, int(layer.get_attr("epsilon_power_of_10")), spread, table)
    return LayerNorm(layer.name, x, y, scale, constants(layer, "bias"), share, accum, values, spread)


def _values(size: int, epsilon: int, spread: int, kind: FixedPoint) -> Constants:
    """The table of init_invert_sqr_table: 1 / sqrt(x) for x from 10**-epsilon in steps of 2**-spread / size."""
    least, step = np.float32(10.0**-epsilon), np.float32(2.0**-spread) / np.float32(size)
    points = least + step * np.arange(size, dtype=np.float32)
    return Constants(kind.from_float(1.0 / np.sqrt(points).astype(np.float64)), kind.fraction)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: LayerNorm, x: Integers) -> Integers:
    vectors = x.reshape(-1, layer.x.channels)
    return np.array([normalised_vector(layer, list(map(int, vector))) for vector in vectors], dtype=object)


LAYER = LayerType(LayerNorm, _evaluate, readers={"LayerNormalization": _read})
