# SPDX-License-Identifier: Apache-2.0
"""ONNX and QONNX models by hls4ml's front end: cleaned by qonnx, run by qonnx for the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.keras_model import conversion_options
from hypersonic.hls.network import UnsupportedLayerError
from hypersonic.hls.project import ConversionError
from hypersonic.hls.trained import TrainedModel

#: of ONNX 1.15, read by every onnxruntime since 1.17
_IR_VERSION = 9


def load_onnx(file: Path) -> TrainedModel:
    """A .onnx file with one input and one output. Raises ConversionError, with the node's name where one is to blame."""
    import hls4ml
    from qonnx.core.modelwrapper import ModelWrapper

    try:
        model = ModelWrapper(str(file))
    except Exception as error:
        raise ConversionError(f"{file} is not an ONNX model: {type(error).__name__}: {error}") from error
    _settle_shapes(model.graph)
    try:
        model = _cleaned(model)
    except Exception as error:
        raise ConversionError(f"{file} is not an ONNX model that qonnx can clean: {type(error).__name__}: {error}") from error
    inputs, outputs = model.graph.input, model.graph.output
    if len(inputs) != 1 or len(outputs) != 1:
        raise ConversionError(f"the model has {len(inputs)} inputs and {len(outputs)} outputs, expected one of each")
    _check_nodes(model, hls4ml.converters.get_supported_onnx_layers())
    shape = tuple(int(size) for size in model.get_tensor_shape(inputs[0].name)[1:])

    def convert(config: dict[str, Any], directory: Path, name: str, part: str) -> Any:
        return hls4ml.converters.convert_from_onnx_model(model, hls_config=config, **conversion_options(directory, name, part))

    config = hls4ml.utils.config_from_onnx_model(model, granularity="name", backend="Vitis")
    return TrainedModel(inputs[0].name, outputs[0].name, shape, config, lambda x: _execute(model, x), convert)


def _settle_shapes(graph: Any) -> None:
    """One row for whatever batch dimension the file has; every other dimension must be known. Raises ConversionError."""
    constants = {constant.name for constant in graph.initializer}
    for tensor in (*graph.input, *graph.output):
        if tensor.name in constants:  # older files list their weights among the inputs
            continue
        batch, *sizes = tensor.type.tensor_type.shape.dim or (None,)
        if batch is None or not sizes or min(size.dim_value for size in sizes) < 1:
            shape = ["batch", *(size.dim_param or size.dim_value or "?" for size in sizes)] if batch else "unknown"
            raise ConversionError(
                f"tensor {tensor.name!r}: shape is {shape}, expected every dimension after the batch as a number; export the "
                "model with fixed shapes"
            )
        batch.dim_value = max(batch.dim_value, 1)


def _cleaned(model: Any) -> Any:
    """Constants folded, channels last, Gemm as MatMul + Add: the form hls4ml's front end reads."""
    from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean
    from qonnx.transformation.gemm_to_matmul import GemmToMatMul
    from qonnx.util.cleanup import cleanup_model

    model = cleanup_model(model)
    for step in (GemmToMatMul(), ConvertToChannelsLastAndClean()):
        model = model.transform(step)
    return cleanup_model(model)


def _check_nodes(model: Any, supported: list[str]) -> None:
    for node in model.graph.node:
        if node.op_type not in supported:
            raise UnsupportedLayerError(f"layer {node.name!r}: hls4ml's ONNX front end has no {node.op_type}")


def _execute(model: Any, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """All rows at once by qonnx, which knows the quantisers that onnxruntime does not."""
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.change_batchsize import ChangeBatchSize
    from qonnx.transformation.infer_shapes import InferShapes

    batched = model.transform(ChangeBatchSize(len(x))).transform(InferShapes())
    # qonnx runs each node as a model of its own, of onnx's newest format, which may be newer than onnxruntime reads
    with mock.patch("onnx.IR_VERSION", _IR_VERSION):
        y = execute_onnx(batched, {batched.graph.input[0].name: x})[batched.graph.output[0].name]
    return np.asarray(y, dtype=np.float64).reshape(len(x), -1)
