# SPDX-License-Identifier: Apache-2.0
"""Layers that change only the shape of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.hls.network.base import Layer, OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.map import linear
from hypersonic.hls.network.raw import Integers


@dataclass(frozen=True)
class Reshape(OneInput):
    """A new shape for the same elements in the same order."""


def _reshape(layer: Any, x: Tensor, y: Tensor) -> Reshape:
    return Reshape(layer.name, x, Tensor(y.name, y.shape, x.precision))


def _repack(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read hls4ml's Reshape in io_stream, which also casts if its result has another type."""
    if x.precision == y.precision:
        return (_reshape(layer, x, y),)
    copied = linear(layer.name, x, Tensor(f"{y.name}_cast", x.shape, y.precision))
    return copied, _reshape(layer, copied.y, y)


# ---------------------------------------------------------------- what it computes
def _evaluate(_layer: Reshape, x: Integers) -> Integers:
    return x


LAYER = LayerType(Reshape, _evaluate, readers={"Reshape": _reshape, "Repack": _repack}, by_image=True)
