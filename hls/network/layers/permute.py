# SPDX-License-Identifier: Apache-2.0
"""Layers that move elements, or leave some out: Permute, Cropping, and the reversed steps of a Bidirectional."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.network.attributes import refuse
from hypersonic.hls.network.base import Layer, OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.map import linear
from hypersonic.hls.network.raw import Integers


@dataclass(frozen=True, eq=False)
class Permute(OneInput):
    """y[i] = x[places[i]]; nnet_transpose.h, nnet_cropping.h.

    Attributes:
        places: (elements of y,). The types are equal.
    """

    places: NDArray[np.int64]


# ---------------------------------------------------------------- in hls4ml's graph
def moved_places(layer: Any) -> NDArray[np.int64]:
    """Return the elements of its input that a Transpose or a Cropping passes on, in order."""
    shape = [int(size) for size in layer.get_input_variable().shape]
    image = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    if layer.class_name == "Transpose":
        return image.transpose([int(axis) for axis in layer.get_attr("perm")]).reshape(-1)
    if str(layer.get_attr("data_format", "channels_last")) != "channels_last":
        raise refuse(layer, "data_format is channels_first, expected channels_last")
    out = [int(size) for size in layer.get_output_variable().shape]
    first = [int(layer.get_attr(f"crop_{side}", 0) or 0) for side in ("top", "left")][2 - (len(shape) - 1) :]
    return image[tuple(slice(start, start + size) for start, size in zip(first, out, strict=False))].reshape(-1)


def transposed_places(layer: Any, shape: str, axes: str) -> NDArray[np.int64]:
    """Return the elements of a tensor in the order in which a transposition reads them.

    Args:
        shape, axes: the layer's attributes.
    """
    sizes = [int(size) for size in layer.get_attr(shape)]
    order = [int(axis) for axis in layer.get_attr(axes)]
    return np.arange(prod(sizes), dtype=np.int64).reshape(sizes).transpose(order).reshape(-1)


def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read it, with a cast behind it if its result has another type."""
    places = moved_places(layer)
    typed = Tensor(y.name, y.shape, x.precision)
    if x.precision != y.precision:
        typed = Tensor(f"{y.name}_moved", y.shape, x.precision)
    moved = Permute(layer.name, x, typed, places)
    return (moved,) if x.precision == y.precision else (moved, linear(layer.name, typed, y))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Permute, x: Integers) -> Integers:
    return x[:, layer.places]


LAYER = LayerType(Permute, _evaluate, readers=dict.fromkeys(("Transpose", "Cropping1D", "Cropping2D"), _read))
