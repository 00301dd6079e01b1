# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions, with one kernel per channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.attributes import constants, precision, refuse, window
from hypersonic.hls.network.base import Products, Tensor, Window
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.products import accumulated, check_one_row, check_strategy, reuse
from hypersonic.hls.network.raw import Integers
from hypersonic.hls.network.windows import window_elements


@dataclass(frozen=True, eq=False)
class Depthwise(Products):
    """Each channel c by itself:  y[p][c] = result(accum(bias[c]) + sum_k accum(x[window p, k][c] * weight[k][c])).

    nnet_sepconv2d_latency.h, nnet_depthwise_product.h (depth multiplier 1). hls4ml splits a SeparableConv into this and a 1x1
    convolution. weight: (kernel pixels, channels), kernel pixels in the order (row, column). bias: (channels,).
    """

    window: Window


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> Depthwise:
    check_strategy(layer)
    if y.channels != x.channels:
        raise refuse(layer, f"{x.channels} channels become {y.channels}, expected a depth multiplier of 1")
    seen, flat = window(layer, "filt"), constants(layer, "weight")
    check_one_row(layer, seen)
    weight = Constants(flat.raw.reshape(seen.size, x.channels), flat.fraction)
    bias, accum = constants(layer, "bias"), precision(layer, "accum_t")
    return Depthwise(layer.name, x, y, weight, bias, accum, *reuse(layer), seen)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Depthwise, x: Integers) -> Integers:
    return accumulated(layer, window_elements(layer.x, layer.window, x), layer.weight.raw.astype(object))


LAYER = LayerType(Depthwise, _evaluate, readers={"DepthwiseConv1D": _read, "DepthwiseConv2D": _read}, by_image=True)
