# SPDX-License-Identifier: Apache-2.0
"""The scalar product of two vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.network.attributes import check_parallel, precision
from hypersonic.hls.network.base import PairProducts, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.products import reuse
from hypersonic.hls.network.raw import Integers, cast, plus


@dataclass(frozen=True, eq=False)
class Dot(PairProducts):
    """y = result(sum over i of accum(a[i] * b[i])), one number, each sum in accum too (nnet_merge.h dot1d)."""


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> Dot:
    check_parallel(layer)
    return Dot(layer.name, a, b, y, precision(layer, "accum_t"), *reuse(layer))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Dot, a: Integers, b: Integers) -> Integers:
    fraction, accum = layer.a.precision.fraction + layer.b.precision.fraction, layer.accum
    products, y = cast(a * b, fraction, accum), np.zeros(len(a), dtype=object)
    for term in range(products.shape[1]):
        y = plus(y, products[:, term], accum.fraction, accum)
    return cast(y, accum.fraction, layer.y.precision)


LAYER = LayerType(Dot, _evaluate, readers={"Dot": _read})
