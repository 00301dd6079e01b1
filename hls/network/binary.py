# SPDX-License-Identifier: Apache-2.0
"""Layers whose inputs have hls4ml's XNOR type: bits, which a product reads as -1 and 1 (nnet_mult.h)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint, Overflow
from hypersonic.hls.model_graph import PRODUCTS_OF_BITS, is_binary, pads, takes_bits
from hypersonic.hls.network.attributes import refuse
from hypersonic.hls.network.raw import cast_all


class BinarySums(NamedTuple):
    """Products with bits x as those with numbers x: sum(w * (2 * x - 1)) is sum(2 * w * x) - sum(w).

    Attributes:
        counted: the integer type to which the C++ casts the sums before the result; None if it does not.
    """

    weight: Constants
    bias: Constants
    accum: FixedPoint
    counted: FixedPoint | None


def reads_bits(layer: Any) -> bool:
    """Return whether an input of the layer has the XNOR type.

    Raises UnsupportedLayerError for a layer that reads the bits as 0 and 1, where the model has -1 and 1.
    """
    bits = any(is_binary(layer.get_input_variable(name)) for name in layer.inputs if name)
    if bits and layer.class_name in PRODUCTS_OF_BITS and pads(layer):
        raise refuse(layer, "its input has the XNOR type, and hls4ml's C++ does not pad that with zeros: use padding='valid'")
    if bits and not takes_bits(layer):
        raise refuse(
            layer,
            "its input has the XNOR type, whose -1 hls4ml's C++ reads as 0 in every layer but a Dense, a convolution, and a "
            "maximum of the same type",
        )
    return bits


def binary_sums(layer: Any, weight: Constants, bias: Constants, accum: FixedPoint) -> BinarySums:
    """Return the constants of a product whose input has the XNOR type.

    Args:
        weight: (n_in, n_out), -1 and 1 where it is binary.

    Raises:
        UnsupportedLayerError: If hls4ml's C++ adds the bias twice, or cuts or wraps a sum in accum.
    """
    n_in, binary = len(weight.raw), is_binary(layer.weights["weight"])
    start = cast_all(bias, accum)
    if binary and start.any():
        raise refuse(layer, "hls4ml's C++ adds the bias of binary weights and a binary input twice: use_bias=False")
    fraction = max(weight.fraction, 0)
    exact = weight.raw.astype(object) << (fraction - weight.fraction)
    left = accum.fraction - fraction
    narrow = left < 0 or not (binary or accum.signed)
    if narrow or (n_in << left if binary else max(abs(start) + (abs(exact).sum(axis=0) << left))) > accum.max_raw:
        raise refuse(layer, f"accum is {accum}, which does not hold its sums of {n_in} products: give it more bits")
    wide = FixedPoint.with_fraction(accum.width + 2, accum.fraction, signed=True, overflow=Overflow.WRAP)
    offset = start - (exact.sum(axis=0) << left)
    counted = FixedPoint.with_fraction((n_in - 1).bit_length() + 2, 0, signed=True) if binary else None
    return BinarySums(Constants((2 * exact).astype(np.int64), fraction), Constants(offset, accum.fraction), wide, counted)
