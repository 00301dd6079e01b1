# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling over a whole image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.network.attributes import precision, streamed
from hypersonic.hls.network.base import Layer, OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.pool import PoolOperation, cast_before, casts_after, pool_operation, pooled
from hypersonic.hls.network.raw import Integers


@dataclass(frozen=True)
class GlobalPool(OneInput):
    """Pooling of each channel over all pixels: Pool with the whole image as its window."""

    operation: PoolOperation
    accum: FixedPoint


def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read a GlobalPooling1D or GlobalPooling2D."""
    operation, accum = pool_operation(layer), precision(layer, "accum_t")
    height, width, _ = x.image
    before, source = cast_before(layer, x, operation, accum, height * width, streamed=streamed(layer))
    result, after = casts_after(layer, source, y, operation, accum)
    return (*before, GlobalPool(layer.name, source, result, operation, accum), *after)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: GlobalPool, x: Integers) -> Integers:
    pixels = x.reshape(len(x), layer.x.images, -1, layer.x.channels)
    return pooled(layer, layer.operation, layer.accum, pixels, np.full(layer.x.images, pixels.shape[2]))


LAYER = LayerType(GlobalPool, _evaluate, readers={"GlobalPooling1D": _read, "GlobalPooling2D": _read}, by_image=True)
