# SPDX-License-Identifier: Apache-2.0
"""Concatenation of two tensors along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.network.base import Tensor, TwoInputs
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast


@dataclass(frozen=True)
class Concatenate(TwoInputs):
    """Concatenation of a and b, each cast to the type of y; nnet_merge.h.

    Attributes:
        axis: in the shape per row, from 0.
    """

    axis: int


def _read(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> Concatenate:
    axis = int(layer.get_attr("axis"))
    return Concatenate(layer.name, a, b, y, axis - 1 if axis > 0 else axis + len(y.shape))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Concatenate, *inputs: Integers) -> Integers:
    parts = [
        cast(values, tensor.precision.fraction, layer.y.precision).reshape(len(values), *tensor.shape)
        for values, tensor in zip(inputs, layer.inputs, strict=True)
    ]
    return np.concatenate(parts, axis=layer.axis + 1)


LAYER = LayerType(Concatenate, _evaluate, readers={"Concatenate": _read})
