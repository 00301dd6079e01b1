# SPDX-License-Identifier: Apache-2.0
"""Draws ONNX nodes that are a function of each number as Keras layers (see draw.py).

The functions that draw a node have the arguments, result and error of those in layers.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.frontend.keras.parts import swapped
from hypersonic.hls.frontend.onnx.layers import (
    Drawing,
    Value,
    constant,
    layers,
    plain,
    refuse,
    scaled,
    unary,
    value,
)
from hypersonic.hls.frontend.onnx.nodes import attributes


def _activation(name: str, node: Any) -> Any:
    return layers().Activation(node.op_type.lower(), name=name)


def _selu(name: str, node: Any) -> Any:
    values = attributes(node)
    if abs(values.get("alpha", 1.67326) - 1.67326) > 1e-4 or abs(values.get("gamma", 1.0507) - 1.0507) > 1e-4:
        raise refuse(name, "Selu with alpha and gamma of its own", "expected ONNX's defaults")
    return layers().Activation("selu", name=name)


def _hard_sigmoid(drawing: Drawing, node: Any, name: str) -> Value:
    """hls4ml has min(max(0.2 * x + 0.5, 0), 1); another slope or shift is a normalisation before it."""
    values = attributes(node)
    slope, shift = values.get("alpha", 0.2), values.get("beta", 0.5)
    given = abs(slope - 0.2) > 1e-6 or abs(shift - 0.5) > 1e-6
    x = scaled(drawing, f"{name}_slope", value(drawing, node), 5 * slope, 5 * (shift - 0.5)) if given else value(drawing, node)
    return Value(layers().Activation("hard_sigmoid", name=name)(x.tensor), x.image, x.flat)


def _clipped(drawing: Drawing, node: Any, name: str) -> Value:
    """A ReLU, or a ReLU up to 6 between two normalisations."""
    import tensorflow as tf

    values, x = attributes(node), value(drawing, node)
    ends = (constant(drawing, node, i, what, name) for i, what in ((1, "min"), (2, "max")))
    given = (
        values.get(what) if end is None else float(end.reshape(-1)[0]) for what, end in zip(("min", "max"), ends, strict=True)
    )
    most = float(np.finfo(np.float32).max)
    low, high = (end if end is not None and abs(end) < most else None for end in given)
    if low is not None and high is not None and low >= high:
        raise refuse(name, f"Clip from {low:g} to {high:g}", "expected a largest number above the smallest")
    if low is None and high is None:
        return x
    if low is not None and high is not None:
        steps = 6 / (high - low)
        x = scaled(drawing, f"{name}_to_6", x, steps, -low * steps)
        capped = Value(layers().Activation(tf.nn.relu6, name=name)(x.tensor), x.image, x.flat)
        return scaled(drawing, f"{name}_back", capped, 1 / steps, low)
    sign, shift = (1.0, low) if low is not None else (-1.0, high)
    assert shift is not None
    x = scaled(drawing, f"{name}_to_0", x, sign, -sign * shift)
    above = Value(layers().ReLU(name=name)(x.tensor), x.image, x.flat)
    return scaled(drawing, f"{name}_back", above, sign, shift)


def _sloped(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw PRelu, with a slope for every number."""
    slope, x = constant(drawing, node, 1, "slope", name), value(drawing, node)
    if slope is None:
        raise refuse(name, "PRelu without slopes", "expected them in the file")
    row = np.broadcast_to(slope, drawing.graph.shapes[node.output[0]])[0]
    x = plain(x, name) if x.flat else x
    drawing.weights[name] = [np.moveaxis(row, 0, -1) if x.image else row]
    return Value(layers().PReLU(name=name)(x.tensor), x.image)


def _softmax(drawing: Drawing, node: Any, name: str) -> Value:
    x, shape = value(drawing, node), drawing.graph.shapes[node.input[0]]
    rank = len(shape)
    axis = attributes(node).get("axis", -1 if drawing.graph.opset >= 13 else 1) % rank
    x = plain(x, name) if x.flat else x
    if drawing.graph.opset < 13 and prod(shape[axis + 1 :]) > 1:
        why = f"Softmax along axes {list(range(axis, rank))} together, as opset {drawing.graph.opset} has it"
        raise refuse(name, why, "expected one axis; export with opset 13 or newer")
    place = (axis - 2) % (rank - 1) + 1 if x.image else axis
    if axis == 0:
        raise refuse(name, f"Softmax along axis 0 of {rank}, over the rows", "expected an axis of a row")
    if place == rank - 1:
        return Value(layers().Activation("softmax", name=name)(x.tensor), x.image)
    order = swapped(place, rank - 1)
    moved = layers().Permute(order, name=f"{name}_before")(x.tensor)
    return Value(layers().Permute(order, name=f"{name}_behind")(layers().Activation("softmax", name=name)(moved)), x.image)


def _hard_swish(drawing: Drawing, node: Any, name: str) -> Value:
    x = value(drawing, node)
    x = plain(x, name) if x.flat else x
    slope = scaled(drawing, f"{name}_slope", x, 5 / 6, 0.0)
    gate = layers().Activation("hard_sigmoid", name=f"{name}_gate")(slope.tensor)
    return Value(layers().Multiply(name=name)([x.tensor, gate]), x.image)


def _negative(drawing: Drawing, node: Any, name: str) -> Value:
    return scaled(drawing, name, value(drawing, node), -1.0, 0.0)


def _absolute(drawing: Drawing, node: Any, name: str) -> Value:
    x = value(drawing, node)
    x = plain(x, name) if x.flat else x
    negative = scaled(drawing, f"{name}_negative", x, -1.0, 0.0)
    return Value(layers().Maximum(name=name)([x.tensor, negative.tensor]), x.image)


def _celu(name: str, node: Any) -> Any:
    if abs(attributes(node).get("alpha", 1.0) - 1) > 1e-6:
        raise refuse(name, f"Celu with alpha {attributes(node)['alpha']:g}", "expected 1, with which it is Elu")
    return layers().ELU(name=name)


def _mish(drawing: Drawing, node: Any, name: str) -> Value:
    x = value(drawing, node)
    gate = layers().Activation("softplus", name=f"{name}_softplus")(x.tensor)
    gate = layers().Activation("tanh", name=f"{name}_tanh")(gate)
    return Value(layers().Multiply(name=name)([x.tensor, gate]), x.image, x.flat)


def _layer_normalization(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw LayerNormalization along the last axis; hls4ml's has the shape (rows, numbers)."""
    options, x, shape = attributes(node), value(drawing, node), drawing.graph.shapes[node.input[0]]
    factor, shift = constant(drawing, node, 1, "scale", name), constant(drawing, node, 2, "bias", name)
    if options.get("axis", -1) % len(shape) != len(shape) - 1:
        raise refuse(name, f"LayerNormalization of several axes, from {options['axis']} on", "expected the last axis alone")
    epsilon, size = float(options.get("epsilon", 1e-5)), shape[-1]
    if not 0 < epsilon < 0.1:
        raise refuse(name, f"LayerNormalization with an epsilon of {epsilon:g}", "expected one above 0 and below 0.1")
    x = plain(x, f"{name}_before")
    rows, row = (prod(x.shape[:-1]), size), x.shape
    tensor = x.tensor if row == rows else layers().Reshape(rows, name=f"{name}_rows")(x.tensor)
    tensor = layers().LayerNormalization(epsilon=epsilon, name=name)(tensor)
    given = np.ones(()) if factor is None else factor, np.zeros(()) if shift is None else shift
    drawing.weights[name] = [np.broadcast_to(numbers, (size,)) for numbers in given]
    return Value(tensor if row == rows else layers().Reshape(row, name=f"{name}_shape")(tensor))


def _log_softmax(drawing: Drawing, node: Any, name: str) -> Value:
    del drawing, node
    remedy = "end the model with Softmax, or with the numbers before it, which have the same order"
    raise refuse(name, "hls4ml has no layer for LogSoftmax, a logarithm", remedy)


#: operator -> the function that draws it
HANDLERS = {
    **dict.fromkeys(("Sigmoid", "Tanh", "Softplus", "Softsign"), unary(_activation)),
    "Relu": unary(lambda name, _: layers().ReLU(name=name)),
    "Selu": unary(_selu),
    "Elu": unary(lambda name, node: layers().ELU(attributes(node).get("alpha", 1.0), name=name)),
    "LeakyRelu": unary(lambda name, node: layers().LeakyReLU(attributes(node).get("alpha", 0.01), name=name)),
    "ThresholdedRelu": unary(lambda name, node: layers().ThresholdedReLU(attributes(node).get("alpha", 1.0), name=name)),
    "Gelu": unary(lambda name, _: layers().Activation("gelu", name=name)),
    "Silu": unary(lambda name, _: layers().Activation("swish", name=name)),
    "HardSwish": _hard_swish,
    "Mish": _mish,
    "Neg": _negative,
    "Abs": _absolute,
    "Celu": unary(_celu),
    "HardSigmoid": _hard_sigmoid,
    "Clip": _clipped,
    "PRelu": _sloped,
    "Softmax": _softmax,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _log_softmax,
}
