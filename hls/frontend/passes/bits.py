# SPDX-License-Identifier: Apache-2.0
"""Passes for binary and ternary activations, and for bits that stand for -1 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from hls4ml.model.layers import BatchNormalization
from hls4ml.model.types import IntegerPrecisionType

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.passes.normalizations import alone
from hypersonic.hls.model_graph import COPYING, is_binary, takes_bits


def check_tanh_scales(node: Any) -> None:
    """Refuse a binary or ternary activation behind a scale of 0 or less, for which hls4ml's thresholds would be reversed."""
    kind, before = str(node.get_attr("activation")), node.get_input_node()
    steps = node.class_name == "TernaryTanh" or (node.class_name == "Activation" and kind.startswith(("binary", "ternary")))
    if steps and isinstance(before, BatchNormalization) and (np.asarray(before.weights["scale"].data) <= 0).any():
        raise UnsupportedLayerError(
            f"layer {before.name!r}: a scale is 0 or less, expected positive ones in front of the binary or "
            f"ternary {node.name!r}, for which hls4ml compares with thresholds in one direction; train it with scale=False"
        )


def move_thresholds(node: Any) -> None:
    """Move the threshold of a normalisation before a binary activation to the next number of its input's type.

    hls4ml compares x >= threshold, but rounds the threshold down to the number before it. So the shift becomes one that is a
    quarter of a step beyond.
    """
    kind, before = str(node.get_attr("activation")), node.get_input_node()
    if not (node.class_name == "Activation" and kind.startswith("binary") and isinstance(before, BatchNormalization)):
        return
    x = before.get_input_variable().type.precision
    if not alone(before) or not hasattr(x, "fractional") or before.get_attr("on_grid"):
        return
    step = 2.0**-x.fractional
    scale, shift = (np.asarray(before.weights[name].data, np.float64) for name in ("scale", "bias"))
    before.weights["bias"].data = -(np.ceil(-shift / scale / step) + 0.25) * step * scale
    before.set_attr("on_grid", True)


def type_signed_bits(node: Any) -> None:
    """Give bits that stand for -1 and 1 (the XNOR type) an integer type that holds these, where they are read as 0 and 1.

    That is where they are an output, and in layers other than products. The tensors that they are copied from or to get it too.
    """
    if not is_binary(node.get_output_variable()):
        return
    readers = (layer for layer in node.model.get_layers() if set(layer.inputs) & set(node.outputs))
    if not set(node.outputs) & set(node.model.outputs) and all(map(_multiplies, readers)):
        return
    for layer in _copies(node.model, node):
        for tensor in layer.outputs:
            layer.get_output_variable(tensor).type.precision = IntegerPrecisionType(2, signed=True)
        if "accum_t" in layer.types:
            layer.types["accum_t"].precision = IntegerPrecisionType(2, signed=True)


def _multiplies(layer: Any) -> bool:
    """Return whether the layer reads such bits as the numbers that they stand for, or copies them."""
    twice = "weight" in layer.weights and is_binary(layer.weights["weight"]) and np.asarray(layer.weights["bias"].data).any()
    return takes_bits(layer) and not twice  # hls4ml's C++ adds the bias of binary weights and bits twice


def _copies(model: Any, node: Any) -> list[Any]:
    """The layers whose results are the bits of a layer's, or the bits that it copies, the layer among them."""
    found, tensors, count = [node], set(node.outputs), 0
    if node.class_name in COPYING:
        tensors |= set(node.inputs)
    while len(found) > count:
        count = len(found)
        for layer in model.get_layers():
            if layer in found or not is_binary(layer.get_output_variable()):
                continue
            if tensors & set(layer.outputs) or (layer.class_name in COPYING and tensors & set(layer.inputs)):
                found.append(layer)
                tensors |= {*layer.outputs, *(layer.inputs if layer.class_name in COPYING else ())}
    return found
