# SPDX-License-Identifier: Apache-2.0
"""Loads ONNX models. Plain ones are drawn in Keras and run by onnxruntime; QONNX ones are read by hls4ml and run by qonnx."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.errors import ConversionError, UnsupportedLayerError
from hypersonic.hls.frontend.keras.layers import read_by_hls4ml
from hypersonic.hls.frontend.keras.model import conversion_options, with_fusions
from hypersonic.hls.frontend.merges import keep_all_bits
from hypersonic.hls.frontend.onnx.draw import draw
from hypersonic.hls.frontend.onnx.graph import (
    IR_VERSION,
    computed_inputs,
    load_proto,
    quantisers,
    read_graph,
    settle,
)
from hypersonic.hls.frontend.onnx.merges import in_pairs
from hypersonic.hls.frontend.onnx.nodes import OnnxGraph
from hypersonic.hls.frontend.onnx.quantisers import QUANT, take_quantisers
from hypersonic.hls.frontend.origins import with_origins
from hypersonic.hls.frontend.trained import ModelTensor, TrainedModel

_CHECKED = ("Conv", "MaxPool", "AveragePool", "Resize")
#: the values of attributes that hls4ml assumes for every node of these kinds
_KNOWN: dict[str, tuple[object, ...]] = {
    "mode": ("nearest",),
    "auto_pad": ("NOTSET", "VALID"),
    "dilations": ((1, 1), (1,)),
    "ceil_mode": (0,),
}


def load_onnx(file: Path) -> TrainedModel:
    """Load a .onnx file. Raises ConversionError, with the node's name if a node is the cause."""
    proto = load_proto(file)
    found = quantisers(proto)
    if found - {*QUANT}:
        return _quantised(file, proto)
    if not found:
        return _plain(graph := read_graph(proto), graph.predict)
    reference = _reference(file, proto)
    proto = _sorted(proto)
    types = take_quantisers(proto)
    return _plain(read_graph(proto, types), lambda x: _execute(reference, x))


def _sorted(proto: Any) -> Any:
    """The model with every node behind those it reads; tools for QONNX do not always keep that order."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.general import SortGraph

    return ModelWrapper(proto).transform(SortGraph()).model


def _reference(file: Path, proto: Any) -> Any:
    """The file as qonnx runs it."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.util.cleanup import cleanup_model

    kept = type(proto)()
    kept.CopyFrom(proto)
    settle([*computed_inputs(kept.graph), *kept.graph.output])
    try:
        with _readable():
            return cleanup_model(ModelWrapper(kept))
    except Exception as error:
        raise ConversionError(f"{file} is not an ONNX model that qonnx can clean: {error}") from error


def _plain(graph: OnnxGraph, run: Callable[[list[NDArray[np.float32]]], Sequence[NDArray[Any]]]) -> TrainedModel:
    """Load a network whose quantisers are types: drawn in Keras for hls4ml.

    Args:
        run: gives the answers in the file's layout.
    """
    from hypersonic.hls.frontend.keras.model import keras_model, use_keras_2

    use_keras_2()
    with with_origins(graph.origins):
        drawn = draw(graph)
        trained = keras_model(drawn.model)
    images = drawn.inputs, drawn.outputs
    folded = {before for _, before in trained.fused}
    for name, types in drawn.types.items():
        called = trained.names.get(name, name)
        if called not in folded:  # the weights of others are scaled by a normalisation, and leave their quantiser's grid
            trained.config["LayerName"][called]["Precision"].update(types)
    inputs, outputs = (
        tuple(replace(tensor, name=name, channels_first=image) for name, tensor, image in zip(names, side, firsts, strict=True))
        for names, side, firsts in (
            (graph.inputs, trained.inputs, drawn.inputs),
            (graph.outputs, trained.outputs, drawn.outputs),
        )
    )

    def predict(x: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float64], ...]:
        fed = [np.moveaxis(part, -1, 1) if image else part for image, part in zip(images[0], x, strict=True)]
        wanted = [
            part.reshape(-1, *graph.shapes[name][1:]).astype(np.float32) for name, part in zip(graph.inputs, fed, strict=True)
        ]
        answers = run([np.ascontiguousarray(part) for part in wanted])
        y = [part.reshape(-1, *graph.shapes[name][1:]) for name, part in zip(graph.outputs, answers, strict=True)]
        y = [np.moveaxis(part, 1, -1) if image else part for image, part in zip(images[1], y, strict=True)]
        return tuple(np.asarray(part, dtype=np.float64).reshape(len(x[0]), -1) for part in y)

    notes = [
        f"{role} {tensor.name!r}: rows are {tensor.shape}, channels last; in the file they are {graph.shapes[tensor.name][1:]}"
        for role, side, lasts in (("input", inputs, images[0]), ("output", outputs, images[1]))
        for tensor, last in zip(side, lasts, strict=True)
        if last
    ]
    remarks = (*trained.notes, *notes)
    return replace(trained, inputs=inputs, outputs=outputs, predict=predict, notes=remarks, origins=graph.origins)


def _quantised(file: Path, proto: Any) -> TrainedModel:
    """Load a QONNX network with hls4ml's own front end."""
    import hls4ml
    from qonnx.core.modelwrapper import ModelWrapper

    settle([*computed_inputs(proto.graph), *proto.graph.output])
    model = ModelWrapper(proto)
    names = [[tensor.name for tensor in side] for side in (computed_inputs(model.graph), model.graph.output)]
    try:
        with _readable():
            model, reference = _cleaned(model)
    except Exception as error:
        raise ConversionError(f"{file} is not an ONNX model that qonnx can clean: {error}") from error
    _check_nodes(model, hls4ml.converters.get_supported_onnx_layers())
    inputs = tuple(
        ModelTensor(name, tensor.name, tuple(int(size) for size in model.get_tensor_shape(tensor.name)[1:]))
        for name, tensor in zip(names[0], model.graph.input, strict=True)
    )
    outputs = tuple(
        ModelTensor(
            name, _producer(model, name, tensor.name), tuple(int(size) for size in model.get_tensor_shape(tensor.name)[1:])
        )
        for name, tensor in zip(names[1], model.graph.output, strict=True)
    )

    paired, pairs = in_pairs(model)

    def convert(config: dict[str, Any], directory: Path, name: str, part: str, io_type: str) -> Any:
        options = conversion_options(directory, name, part, io_type)
        graph = hls4ml.converters.convert_from_onnx_model(paired, hls_config=with_fusions(config), **options)
        return keep_all_bits(_ordered(paired, graph), pairs)

    config = read_by_hls4ml(lambda: hls4ml.utils.config_from_onnx_model(paired, granularity="name", backend="Vitis"))
    return TrainedModel(inputs, outputs, config, lambda x: _execute(reference, x), convert)


def _readable() -> Any:
    """A context in which onnxruntime can read the models that qonnx makes.

    qonnx runs each node as a model of its own, in onnx's newest format, which may be newer than onnxruntime reads.
    """
    return mock.patch("onnx.IR_VERSION", IR_VERSION)


def _producer(model: Any, name: str, tensor: str) -> str:
    node = model.find_producer(tensor)
    if node is None or node.output[0] != tensor:
        raise ConversionError(f"output {name!r} is an input or one of several results of a node, expected a node's only result")
    return str(node.name)


def _ordered(model: Any, graph: Any) -> Any:
    """Put the outputs of hls4ml's ModelGraph, which are in the order of the nodes, into the model's order."""
    wanted = [tensor.name for tensor in model.graph.output]
    outputs = [node.output[0] for node in model.graph.node if node.output[0] in wanted]
    if len(graph.outputs) == len(outputs):
        graph.outputs = [graph.outputs[outputs.index(tensor)] for tensor in wanted]
    return graph


def _cleaned(model: Any) -> tuple[Any, Any]:
    """The model in the form that hls4ml's front end reads (constants folded, channels last, Gemm as MatMul + Add), and the
    cleaned model before that, as the reference to run."""
    from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean
    from qonnx.transformation.gemm_to_matmul import GemmToMatMul
    from qonnx.util.cleanup import cleanup_model

    model = cleanup_model(model)
    reference = copy.deepcopy(model)
    for step in (GemmToMatMul(), ConvertToChannelsLastAndClean()):
        model = model.transform(step)
    return cleanup_model(model), reference


def _check_nodes(model: Any, supported: list[str]) -> None:
    for node in model.graph.node:
        if node.op_type not in supported:
            raise UnsupportedLayerError(
                f"layer {node.name!r}: hls4ml's ONNX front end has no {node.op_type}; build it from layers that it has, or "
                "serve the whole model with the server's onnxruntime backend"
            )
        if node.op_type in _CHECKED:
            _check_attributes(node)
        before = model.find_producer(node.input[0])
        if node.op_type == "Quant" and before is not None and _branches(model, node.input[0]):
            raise UnsupportedLayerError(
                f"layer {node.name!r}: it quantises one branch after layer {before.name!r}, and hls4ml would quantise all "
                "branches: quantise before they part"
            )


def _check_attributes(node: Any) -> None:
    """Refuse attributes that hls4ml 1.3.0 silently ignores; for example, it treats every Resize as nearest."""
    for attribute in node.attribute:
        known = _KNOWN.get(attribute.name, ())
        value = attribute.s.decode(errors="replace") or tuple(attribute.ints) or attribute.i
        if known and value not in known:
            raise UnsupportedLayerError(
                f"layer {node.name!r}: {node.op_type} with {attribute.name} {value}, which hls4ml ignores; expected {known[0]}"
            )


def _branches(model: Any, tensor: str) -> bool:
    return len(model.find_consumers(tensor) or ()) > 1 or tensor in [output.name for output in model.graph.output]


def _execute(model: Any, x: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float64], ...]:
    """Run all rows at once in qonnx, which supports the quantisers that onnxruntime does not."""
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.change_batchsize import ChangeBatchSize
    from qonnx.transformation.infer_shapes import InferShapes

    batched = model.transform(ChangeBatchSize(len(x[0])))
    for tensor in (*batched.graph.input, *batched.graph.output):  # qonnx changes only the first input and output
        tensor.type.tensor_type.shape.dim[0].dim_value = len(x[0])
    batched = batched.transform(InferShapes())
    feed = {tensor.name: part for tensor, part in zip(batched.graph.input, x, strict=True)}
    with _readable():
        y = execute_onnx(batched, feed)
    return tuple(np.asarray(y[tensor.name], dtype=np.float64).reshape(len(x[0]), -1) for tensor in batched.graph.output)
