# SPDX-License-Identifier: Apache-2.0
"""The layer of stages/map.py, which the readers of other layers put behind their own as a cast."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypersonic.hls.fixed import Constants
from hypersonic.hls.rf.layers import OneInput, Tensor
from hypersonic.hls.rf.parts.attributes import NONE


class MapFunction(StrEnum):
    """Elementwise functions. The comments give the exact result before the cast to the type of y."""

    LINEAR = "linear"  # x
    RELU = "relu"  # x where x > 0, else 0
    LEAKY = "leaky"  # x where x > 0, else scale * x  (LeakyReLU one alpha, PReLU one for each element)
    AFFINE = "affine"  # scale * x + bias  (BatchNormalization, ApplyAlpha)
    CAP = "cap"  # x where 0 <= x <= bias, 0 below, bias above  (relu6, relu1)
    THRESHOLD = "threshold"  # x where x > bias, else 0
    HARD_SIGMOID = "hard_sigmoid"  # min(max(scale * x + bias, 0), 1)
    HARD_TANH = "hard_tanh"  # 2 * hard_sigmoid - 1
    STEP = "step"  # 1 where x > scale, else 0 where x > bias, else -1  (binary and ternary tanh)


@dataclass(frozen=True, eq=False)
class Map(OneInput):
    """y[i] = result(f(x[i])); nnet_activation.h, nnet_batchnorm.h.

    scale, bias: one constant, one per channel, or one per element of a row; empty if f has none.
    """

    function: MapFunction
    scale: Constants
    bias: Constants


def linear(name: str, x: Tensor, y: Tensor) -> Map:
    """Return a cast from x to the type of y."""
    return Map(name, x, y, MapFunction.LINEAR, NONE, NONE)
