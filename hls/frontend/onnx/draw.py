# SPDX-License-Identifier: Apache-2.0
"""Draws a plain ONNX graph as a Keras model of layers that hls4ml supports: images channels last, Gemm and MatMul as Dense.

Layers are named <operator>_<n>, where n counts the operator's nodes in the file's order; inputs global_in, global_in_1, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.onnx import functions, integers, joins, selections
from hypersonic.hls.frontend.onnx import layers as onnx_layers
from hypersonic.hls.frontend.onnx import windows as onnx_windows
from hypersonic.hls.frontend.onnx.batch import ELEMENTWISE, KINDS
from hypersonic.hls.frontend.onnx.layers import Drawing, Value, plain, refuse
from hypersonic.hls.frontend.onnx.nodes import PASSING, OnnxGraph
from hypersonic.hls.frontend.onnx.recurrent import check_form, recurrent
from hypersonic.hls.frontend.onnx.windows import transposed_convolution

#: operators that read tensors with the channels first
_IMAGE = (
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Resize",
    "Upsample",
    "BatchNormalization",
)
#: operators of onnxruntime's QOperator format, whose numbers are integers
_OF_INTEGERS = ("QLinearConv", "QLinearMatMul", "QLinearAdd", "MatMulInteger", "ConvInteger", "DynamicQuantizeLinear", "QGemm")
#: operators that keep every number, or every channel, in its position
_IN_PLACE = (*ELEMENTWISE, "Pad", "Concat", "QuantizeLinear", "DequantizeLinear", "Split", "Slice")


@dataclass(frozen=True)
class Drawn:
    """A Keras model of an ONNX graph.

    Attributes:
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
        _check_operator(node, name)
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
        node.op_type in _IMAGE or (node.op_type in _IN_PLACE and any(_is_image(graph, made, seen) for made in node.output))
        for node in readers
    )


def _check_operator(node: Any, name: str) -> None:
    """Refuse an unsupported operator, before an error names another node that reads its result."""
    if node.op_type in _OF_INTEGERS:
        raise refuse(
            name, f"{node.op_type} computes with integers", "quantise with onnxruntime's QuantFormat.QDQ, not QOperator"
        )
    if node.op_type in KINDS:
        check_form(node, name)
    if node.op_type not in _HANDLERS or node.domain not in ("", "ai.onnx"):
        remedy = "build it from layers that it has, or serve the whole model with the server's onnxruntime backend"
        raise refuse(name, f"hls4ml has no layer for {node.op_type}", remedy)


def _draw(drawing: Drawing, node: Any, name: str) -> None:
    if len([tensor for tensor in node.output if tensor]) > 1 and node.op_type not in (*PASSING, "Split"):
        raise refuse(name, f"{node.op_type} with {len(node.output)} results", "expected one; export the model for inference")
    if node.output[0] not in drawing.graph.shapes:
        raise refuse(name, "the shape of its result depends on the values of its input", "export the model with fixed shapes")
    drawing.values[node.output[0]] = _HANDLERS[node.op_type](drawing, node, name)


_HANDLERS = {
    **dict.fromkeys(PASSING, onnx_layers.passed),
    **functions.HANDLERS,
    **dict.fromkeys((*joins.MERGES, "Div"), joins.merged),
    "Concat": joins.concatenated,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), onnx_layers.flattened),
    "Transpose": onnx_layers.transpose,
    **dict.fromkeys(("Gemm", "MatMul"), onnx_layers.dense),
    "Conv": onnx_windows.convolution,
    **dict.fromkeys(("MaxPool", "AveragePool"), onnx_windows.pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), onnx_windows.global_pool),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax"), onnx_windows.reduced),
    "ConvTranspose": transposed_convolution,
    **dict.fromkeys(KINDS, recurrent),
    "Split": selections.split,
    "Slice": selections.sliced,
    "Gather": selections.gathered,
    "QuantizeLinear": integers.quantised,
    "DequantizeLinear": integers.integers,
    "BatchNormalization": onnx_windows.normalised,
    "Pad": onnx_windows.zero_padded,
    **dict.fromkeys(("Resize", "Upsample"), onnx_windows.resized),
}
