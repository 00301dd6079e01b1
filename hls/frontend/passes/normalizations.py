# SPDX-License-Identifier: Apache-2.0
"""Passes that fold normalisations into other layers, or leave them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from hls4ml.model.layers import BatchNormalization, DepthwiseConv1D, DepthwiseConv2D
from hls4ml.model.optimizer.passes.batchnorm_opt import FuseConsecutiveBatchNormalization
from hls4ml.model.optimizer.passes.bn_fuse import FuseBatchNormalization
from hls4ml.model.quantizers import QKerasPO2Quantizer
from hls4ml.model.types import (
    FixedPrecisionType,
    IntegerPrecisionType,
    UnspecifiedPrecisionType,
)
from numpy.typing import NDArray

#: types of constants that the C++ multiplies by; the others are shifts or signs
_MULTIPLIED = (IntegerPrecisionType, FixedPrecisionType, UnspecifiedPrecisionType)

Numbers = NDArray[np.floating[Any]]


class FoldNormalization(FuseBatchNormalization):  # type: ignore[misc]
    """Folds a normalisation into the dense layer or convolution before it, if every channel has one scale and one bias."""

    def match(self, node: Any) -> bool:
        """Return whether hls4ml's conditions hold, each channel has one number, and no quantiser is lost.

        hls4ml's conditions overlook the quantiser of a depthwise convolution.
        """
        if not super().match(node):
            return False
        before = node.get_input_node()
        if before.get_attr("depthwise_quantizer") is not None:
            return False
        if isinstance(before.get_attr("weight_quantizer"), QKerasPO2Quantizer):  # the products would not be powers of two
            return False
        return all(numbers is not None for numbers in _constants(node, before))

    def transform(self, model: Any, node: Any) -> bool:
        """Multiply the weights and remove the normalisation; return whether the graph changed.

        It stays if another layer reads the layer before it, or if either has weights that are shifts or signs. The layer
        before it gets the type of its result.
        """
        before = node.get_input_node()
        if len(before.get_output_nodes()) > 1 or before.outputs[0] in model.outputs:
            return False
        if not all(isinstance(held.type.precision, _MULTIPLIED) for held in (*before.weights.values(), *node.weights.values())):
            return False
        scale, shift, bias = _constants(node, before)
        weight = np.asarray(before.weights["weight"].data)
        depthwise = isinstance(before, DepthwiseConv1D | DepthwiseConv2D)
        along = np.reshape(scale, weight.shape[-2:]) if depthwise else scale
        folded = {"weight": along * weight, "bias": scale * bias + shift}
        for name, scaled in (("weight", "scale"), ("bias", "bias")):
            own, other = node.get_attr(f"{scaled}_quantizer"), before.get_attr(f"{name}_quantizer")
            quantiser = own if own is not None else other
            before.add_weights_variable(name=name, var_name=f"{name[0]}{{index}}", data=folded[name], quantizer=quantiser)
        asked = node.get_output_variable().type.precision
        if not isinstance(asked, UnspecifiedPrecisionType):  # else the next normalisation is folded too, without the rounding
            before.get_output_variable().type.precision = asked
        model.remove_node(node)
        return True


class FoldConsecutiveNormalizations(FuseConsecutiveBatchNormalization):  # type: ignore[misc]
    """Folds two consecutive normalisations into one, if both have a number per channel or both have one per element."""

    def match(self, node: Any) -> bool:
        """Return whether hls4ml's conditions hold and all scales and biases, and their products, have the same size."""
        if not super().match(node) or node.get_input_node().outputs[0] in node.model.outputs:
            return False
        pair = [np.asarray(layer.weights[name].data) for layer in (node.get_input_node(), node) for name in ("scale", "bias")]
        return len({numbers.size for numbers in (*pair, pair[0] * pair[2], pair[1] * pair[2] + pair[3])}) == 1


def _constants(node: Any, before: Any) -> tuple[Any, Any, Any]:
    """The scale and bias of a normalisation and the bias of the layer before it, each as from per_channel."""
    channels = int(before.get_output_variable().shape[-1])
    held = node.weights["scale"], node.weights["bias"], before.weights["bias"]
    scale, shift, bias = (per_channel(np.asarray(variable.data), channels) for variable in held)
    return scale, shift, bias


def per_channel(numbers: Numbers, channels: int) -> Numbers | None:
    """Reduce constants whose last axis is the channels to one number per channel, (channels,).

    Returns None if the numbers of a channel differ from position to position.
    """
    if numbers.size == 1:
        return np.full(channels, numbers.reshape(-1)[0])
    if numbers.size % channels:
        return None
    rows = numbers.reshape(-1, channels)
    return rows[0] if (rows == rows[0]).all() else None


def part_shared_normalization(node: Any) -> None:
    """Keep a normalisation apart from a binary activation if others read it too; hls4ml gives those the numbers before it.

    The function's name is written so that hls4ml's pass does not find it; templates read it in lower case.
    """
    before = node.get_input_node()
    kind = node.get_attr("activation") if node.class_name == "Activation" and isinstance(before, BatchNormalization) else ""
    if kind in ("binary", "binary_tanh") and not alone(before):
        node.set_attr("activation", "Binary_tanh")


def alone(before: Any) -> bool:
    """Return whether one layer reads a layer's result, and it is not an output."""
    return len(before.get_output_nodes()) == 1 and not set(before.outputs) & set(before.model.outputs)
