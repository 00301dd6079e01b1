# SPDX-License-Identifier: Apache-2.0
"""Quantisers of HGQ2, which cast each element to a type of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.model_graph import element_types
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast

#: a type of an element; None makes it 0
ElementType = FixedPoint | None


@dataclass(frozen=True, eq=False)
class Quantise(OneInput):
    """y[i] = result(types[i](x[i])).

    Attributes:
        types: one for each element of a row, with one rounding and one overflow mode.
    """

    types: tuple[ElementType, ...]


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> Quantise:
    types = element_types(layer, x.size)
    return Quantise(layer.name, x, y, types)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Quantise, x: Integers) -> Integers:
    fraction, y = layer.x.precision.fraction, np.zeros(x.shape, dtype=object)
    for kind in set(layer.types):
        if kind:
            here = [each == kind for each in layer.types]
            y[:, here] = cast(cast(x[:, here], fraction, kind), kind.fraction, layer.y.precision)
    return y


LAYER = LayerType(Quantise, _evaluate, readers={"FixedPointQuantizer": _read})
