# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers without a table: ReLU and its variants, batch normalisation, hard sigmoid, casts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants
from hypersonic.hls.model_graph import is_binary
from hypersonic.hls.network.attributes import NONE, constants, number, parameter
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, at_fraction, cast


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

    Attributes:
        scale, bias: one constant, one per channel, or one per element of a row; empty if f has none.
    """

    function: MapFunction
    scale: Constants
    bias: Constants


def linear(name: str, x: Tensor, y: Tensor) -> Map:
    """Return a cast from x to the type of y."""
    return Map(name, x, y, MapFunction.LINEAR, NONE, NONE)


# ---------------------------------------------------------------- in hls4ml's graph
#: hls4ml's name of an activation -> function, and the attributes (value, type) of its scale and of its bias
_MAPS: dict[str, tuple[MapFunction, tuple[str, str] | None, tuple[str, str] | None]] = {
    "linear": (MapFunction.LINEAR, None, None),
    "relu": (MapFunction.RELU, None, None),
    **dict.fromkeys(("leakyrelu", "leaky_relu"), (MapFunction.LEAKY, ("activ_param", "param_t"), None)),
    "thresholdedrelu": (MapFunction.THRESHOLD, None, ("activ_param", "param_t")),
    "hard_sigmoid": (MapFunction.HARD_SIGMOID, ("slope", "slope_t"), ("shift", "shift_t")),
    "hard_tanh": (MapFunction.HARD_TANH, ("slope", "slope_t"), ("shift", "shift_t")),
}


_CAPS = {"relu1": 1, "relu6": 6}


def _activation(layer: Any, x: Tensor, y: Tensor) -> Map:
    function = str(layer.get_attr("activation")).lower()
    if function in _CAPS:
        return Map(layer.name, x, y, MapFunction.CAP, NONE, number(_CAPS[function]))
    if function == "capped_relu":
        return Map(layer.name, x, y, MapFunction.CAP, NONE, parameter(layer, "activ_param", "param_t"))
    if function == "binary_tanh":
        return _binary(layer, x, y, Constants(np.zeros(1, np.int64), x.precision.fraction))
    if function == "prelu":
        return Map(layer.name, x, y, MapFunction.LEAKY, constants(layer, "param"), NONE)
    kind, scale, bias = _MAPS[function]
    return Map(layer.name, x, y, kind, *(parameter(layer, *where) if where else NONE for where in (scale, bias)))


def _binary(layer: Any, x: Tensor, y: Tensor, threshold: Constants) -> Map:
    """1 where x >= threshold, otherwise -1, or 0 if hls4ml's result is binary: the bit that stands for -1."""
    fraction = max(threshold.fraction, x.precision.fraction)
    above = at_fraction(threshold, fraction) - 1  # x has no value between the number before the threshold and the threshold
    least = Constants(np.array([x.precision.min_raw - 1], dtype=object), x.precision.fraction)
    below = least if is_binary(layer.get_output_variable()) else Constants(above, fraction)
    return Map(layer.name, x, y, MapFunction.STEP, Constants(above, fraction), below)


def _quantised_tanh(layer: Any, x: Tensor, y: Tensor) -> Map:
    """Read a binary or ternary tanh with the normalisation before it, as thresholds for each channel (nnet_batchnorm.h)."""
    if int(layer.get_attr("quantize")) == _TERNARY:
        return Map(layer.name, x, y, MapFunction.STEP, constants(layer, "threshold_hi"), constants(layer, "threshold_lo"))
    return _binary(layer, x, y, constants(layer, "threshold"))


_TERNARY = 3  # hls4ml's number of values


def _batch_normalization(layer: Any, x: Tensor, y: Tensor) -> Map:
    return Map(layer.name, x, y, MapFunction.AFFINE, constants(layer, "scale"), constants(layer, "bias"))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Map, x: Integers) -> Integers:
    scale, bias, fraction = _per_element(layer.scale, x), _per_element(layer.bias, x), layer.x.precision.fraction
    grid = max(fraction + max(layer.scale.fraction, 0), layer.scale.fraction, layer.bias.fraction, 0)
    fine, one = x << (grid - fraction), 1 << grid
    scaled = (x * scale) << (grid - fraction - layer.scale.fraction)
    shifted = bias << (grid - layer.bias.fraction)
    match layer.function:
        case MapFunction.LINEAR:
            y = fine
        case MapFunction.RELU:
            y = np.maximum(fine, 0)
        case MapFunction.LEAKY:
            y = np.where(fine > 0, fine, scaled)
        case MapFunction.AFFINE:
            y = scaled + shifted
        case MapFunction.CAP:
            y = np.clip(fine, 0, shifted)
        case MapFunction.THRESHOLD:
            y = np.where(fine > shifted, fine, 0)
        case MapFunction.STEP:
            above, below = fine > scale << (grid - layer.scale.fraction), fine > shifted
            y = np.where(above, one, np.where(below, 0, -one)).astype(object)
        case MapFunction.HARD_SIGMOID:
            y = np.clip(scaled + shifted, 0, one)
        case MapFunction.HARD_TANH:
            y = 2 * np.clip(scaled + shifted, 0, one) - one
    return cast(y, grid, layer.y.precision)


def _per_element(values: Constants, like: Integers) -> Integers:
    return np.resize(values.raw.astype(object), like.shape[1]) if values.raw.size else np.zeros(1, dtype=object)


LAYER = LayerType(
    Map,
    _evaluate,
    readers={
        "BatchNormalization": _batch_normalization,
        "ApplyAlpha": _batch_normalization,
        "BatchNormalizationQuantizedTanh": _quantised_tanh,
    },
    activations=dict.fromkeys((*_MAPS, *_CAPS, "capped_relu", "prelu", "binary_tanh"), _activation),
    by_image=True,
)
