# SPDX-License-Identifier: Apache-2.0
"""Draws ConvTranspose as a convolution of its input with zeros between the numbers, by the kernel turned around.

The zeros are padding of the input in other shapes, so that they need no arithmetic. The function that draws a node has the
arguments, result and error of those in layers.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hypersonic.hls.frontend.keras.convolutions import spread
from hypersonic.hls.frontend.onnx.layers import (
    Drawing,
    Value,
    constant,
    image,
    layers,
    refuse,
    value,
)
from hypersonic.hls.frontend.onnx.nodes import attributes


def transposed_convolution(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw ConvTranspose of one group over one or two spatial axes."""
    options, x = attributes(node), image(value(drawing, node), name)
    weight, bias = constant(drawing, node, 1, "weight", name), constant(drawing, node, 2, "bias", name)
    if weight is None or weight.ndim not in (3, 4):
        raise refuse(name, "ConvTranspose without constant weights, or over three dimensions", "expected one or two")
    places, size = weight.ndim - 2, weight.shape[2:]
    _check(options, name)
    strides, more = (options.get(what, [default] * places) for what, default in (("strides", 1), ("output_padding", 0)))
    pads = options.get("pads", [0] * 2 * places)
    sides = [
        (part - 1 - before, part - step + extra - after)
        for part, step, extra, before, after in zip(size, strides, more, pads[:places], pads[places:], strict=True)
    ]
    tensor = x.tensor
    for number, part in enumerate(spread(x.shape, strides, sides)):
        tensor = getattr(layers(), part.kind)(**part.options, name=f"{name}_zeros_{number}")(tensor)
    kernel = np.flip(np.moveaxis(weight, (0, 1), (-2, -1)), axis=tuple(range(places)))
    layer = getattr(layers(), f"Conv{places}D")(weight.shape[1], size, use_bias=bias is not None, name=name)
    drawing.weights[name] = [kernel, *([] if bias is None else [bias])]
    drawing.typed(name, weight=node.input[1], **({"bias": node.input[2]} if bias is not None else {}))
    return Value(layer(tensor), image=True)


def _check(options: dict[str, Any], name: str) -> None:
    if options.get("group", 1) != 1 or any(step != 1 for step in options.get("dilations", [])):
        raise refuse(name, f"ConvTranspose with group {options.get('group', 1)} and dilations {options.get('dilations', 1)}",
                     "expected 1")  # fmt: skip
    if options.get("auto_pad", "NOTSET") != "NOTSET" or options.get("output_shape"):
        raise refuse(name, "ConvTranspose with auto_pad or output_shape", "give its pads as numbers")
