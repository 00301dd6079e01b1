# SPDX-License-Identifier: Apache-2.0
"""Draws a plain ONNX graph as a Keras model of layers that hls4ml supports: images channels last, Gemm and MatMul as Dense.

Layers are named <operator>_<n>, where n counts the operator's nodes in the file's order; inputs global_in, global_in_1, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.onnx import integers
from hypersonic.hls.frontend.onnx import layers as onnx_layers
from hypersonic.hls.frontend.onnx import windows as onnx_windows
from hypersonic.hls.frontend.onnx.graph import PASSING, OnnxGraph
from hypersonic.hls.frontend.onnx.layers import Drawing, Value, attributes, constant, layers, plain, refuse, unary, value

#: operators that read tensors with the channels first
_IMAGE = ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize", "Upsample", "BatchNormalization")
#: operators of onnxruntime's QOperator format, whose numbers are integers
_OF_INTEGERS = ("QLinearConv", "QLinearMatMul", "QLinearAdd", "MatMulInteger", "ConvInteger", "DynamicQuantizeLinear", "QGemm")
#: operators that keep every number, or every channel, in its position
_IN_PLACE = (
    *PASSING, *onnx_layers.FUNCTIONS, *onnx_layers.MERGES, "Div", "Clip", "Elu", "LeakyRelu", "ThresholdedRelu", "PRelu",
    "HardSigmoid", "Pad", "Concat", "QuantizeLinear", "DequantizeLinear",
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A Keras model of an ONNX graph.

    inputs, outputs: for each, True if it has channels last where the file has them first.
    types: hls4ml's types of results and weights that quantisers give, by layer name.
    """

    model: Any
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    types: dict[str, dict[str, str]]


def draw(graph: OnnxGraph) -> Drawn:
    """Draw the graph.

    Raises UnsupportedLayerError, with the node's name, for a node that hls4ml has no layer for.
    """
    import tf_keras as keras

    drawing = Drawing(graph)
    for i, name in enumerate(graph.inputs):
        shape, image = graph.shapes[name][1:], _is_image(graph, name)
        place = (*shape[1:], shape[0]) if image else shape
        drawing.values[name] = Value(keras.Input(place, name="global_in" + f"_{i}" * bool(i)), image)
    inputs = [drawing.values[name] for name in graph.inputs]
    for node, name in zip(graph.nodes, graph.names, strict=True):
        if not all(tensor in drawing.values for tensor in node.output if tensor):
            _draw(drawing, node, name)
    outputs = []
    for name in graph.outputs:
        if name not in drawing.values:
            raise UnsupportedLayerError(f"output {name!r} is a constant, expected one that is computed from the inputs")
        value = drawing.values[name]
        outputs.append(plain(value, f"out_{name}") if value.flat else value)
    model = keras.Model([value.tensor for value in inputs], [value.tensor for value in outputs])
    for layer, weights in drawing.weights.items():
        model.get_layer(layer).set_weights(weights)
    return Drawn(model, tuple(one.image for one in inputs), tuple(one.image for one in outputs), drawing.types)


def _is_image(graph: OnnxGraph, tensor: str, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a tensor of three or four dimensions is read, here or further on, with the channels first."""
    if len(graph.shapes.get(tensor, ())) not in (3, 4):
        return False
    readers = [node for node in graph.readers(tensor) if node.output[0] not in seen]
    seen = seen | {node.output[0] for node in readers}
    return any(
        node.op_type in _IMAGE or (node.op_type in _IN_PLACE and _is_image(graph, node.output[0], seen)) for node in readers
    )


def _draw(drawing: Drawing, node: Any, name: str) -> None:
    handler = _HANDLERS.get(node.op_type)
    if node.op_type in _OF_INTEGERS:
        raise refuse(
            name, f"{node.op_type} computes with integers", "quantise with onnxruntime's QuantFormat.QDQ, not QOperator"
        )
    if handler is None or node.domain not in ("", "ai.onnx"):
        remedy = "build it from layers that it has, or serve the whole model with the server's onnxruntime backend"
        raise refuse(name, f"hls4ml has no layer for {node.op_type}", remedy)
    if len([tensor for tensor in node.output if tensor]) > 1 and node.op_type not in PASSING:
        raise refuse(name, f"{node.op_type} with {len(node.output)} results", "expected one; export the model for inference")
    if node.output[0] not in drawing.graph.shapes:
        raise refuse(name, "the shape of its result depends on the values of its input", "export the model with fixed shapes")
    drawing.values[node.output[0]] = handler(drawing, node, name)


def _activation(name: str, node: Any) -> Any:
    return layers().Activation(node.op_type.lower(), name=name)


def _selu(name: str, node: Any) -> Any:
    values = attributes(node)
    if abs(values.get("alpha", 1.67326) - 1.67326) > 1e-4 or abs(values.get("gamma", 1.0507) - 1.0507) > 1e-4:
        raise refuse(name, "Selu with alpha and gamma of its own", "expected ONNX's defaults")
    return layers().Activation("selu", name=name)


def _hard_sigmoid(name: str, node: Any) -> Any:
    values = attributes(node)
    slope, shift = values.get("alpha", 0.2), values.get("beta", 0.5)
    if abs(slope - 0.2) > 1e-6 or abs(shift - 0.5) > 1e-6:
        raise refuse(name, f"HardSigmoid with alpha {slope:g} and beta {shift:g}, and hls4ml has 0.2 and 0.5", "use Sigmoid")
    return layers().Activation("hard_sigmoid", name=name)


def _clipped(drawing: Drawing, node: Any, name: str) -> Value:
    import tensorflow as tf

    values = attributes(node)
    low, high = (constant(drawing, node, i, what, name) for i, what in ((1, "min"), (2, "max")))
    bounds = (
        float(low.reshape(-1)[0]) if low is not None else values.get("min", -np.inf),
        float(high.reshape(-1)[0]) if high is not None else values.get("max", np.inf),
    )
    if bounds[0] == 0 and bounds[1] >= np.finfo(np.float32).max:
        return unary(lambda name, _: layers().ReLU(name=name))(drawing, node, name)
    if bounds != (0, 6):
        raise refuse(name, f"Clip from {bounds[0]:g} to {bounds[1]:g}, for which hls4ml has no C++", "expected 0 to 6 (ReLU6)")
    return unary(lambda name, _: layers().Activation(tf.nn.relu6, name=name))(drawing, node, name)


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
    if axis != (1 if x.image else rank - 1):
        raise refuse(name, f"Softmax along axis {axis} of {rank}", "expected the channels, or the last axis")
    return Value(layers().Activation("softmax", name=name)(x.tensor), x.image)


_HANDLERS = {
    **dict.fromkeys(PASSING, onnx_layers.passed),
    **dict.fromkeys(("Sigmoid", "Tanh", "Softplus", "Softsign"), unary(_activation)),
    "Relu": unary(lambda name, _: layers().ReLU(name=name)),
    "Selu": unary(_selu),
    "HardSigmoid": unary(_hard_sigmoid),
    "Elu": unary(lambda name, node: layers().ELU(attributes(node).get("alpha", 1.0), name=name)),
    "LeakyRelu": unary(lambda name, node: layers().LeakyReLU(attributes(node).get("alpha", 0.01), name=name)),
    "ThresholdedRelu": unary(lambda name, node: layers().ThresholdedReLU(attributes(node).get("alpha", 1.0), name=name)),
    "Clip": _clipped,
    "PRelu": _sloped,
    "Softmax": _softmax,
    **dict.fromkeys((*onnx_layers.MERGES, "Div"), onnx_layers.merged),
    "Concat": onnx_layers.concatenated,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), onnx_layers.flattened),
    "Transpose": onnx_layers.transpose,
    **dict.fromkeys(("Gemm", "MatMul"), onnx_layers.dense),
    "Conv": onnx_windows.convolution,
    **dict.fromkeys(("MaxPool", "AveragePool"), onnx_windows.pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), onnx_windows.global_pool),
    **dict.fromkeys(("ReduceMean", "ReduceMax"), onnx_windows.reduced),
    "QuantizeLinear": integers.quantised,
    "DequantizeLinear": integers.integers,
    "BatchNormalization": onnx_windows.normalised,
    "Pad": onnx_windows.zero_padded,
    **dict.fromkeys(("Resize", "Upsample"), onnx_windows.resized),
}
