# SPDX-License-Identifier: Apache-2.0
"""ONNX models of a few nodes, the config.pbtxt beside them, and requests to them without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import TensorProto, helper, numpy_helper
from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.inference.strings import pack_strings

#: datatype on the wire -> ONNX's
TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
    "BF16": TensorProto.BFLOAT16,
}
#: (name, datatype, shape)
Value = tuple[str, str, Sequence[int | str]]


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Mapping[str, np.ndarray] | None = None,
) -> bytes:
    """A serialized model."""
    values = [[helper.make_tensor_value_info(n, TYPES[t], list(s)) for n, t, s in side] for side in (inputs, outputs)]
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", *values, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Names separated by blanks."""
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def identity(datatype: str, shape: Sequence[int | str] = ("N", 3)) -> bytes:
    return graph([node("Identity", "x", "y")], [("x", datatype, shape)], [("y", datatype, shape)])


def add_sub() -> bytes:
    tensors = [(name, "FP32", ("N", 4)) for name in ("a", "b", "sum", "difference")]
    return graph([node("Add", "a b", "sum"), node("Sub", "a b", "difference")], tensors[:2], tensors[2:])


ADD_SUB = """
max_batch_size: 8
input [ { name: "a" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "b" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "sum" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "difference" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


def tensors(kind: str, *specs: tuple[str, str, Sequence[int]], extra: str = "") -> str:
    """config.pbtxt's inputs or outputs: (name, datatype, dims)."""
    return "".join(
        f'{kind} [ {{ name: "{name}" data_type: {DATATYPES[datatype].enum} dims: {list(dims)} {extra} }} ]\n'
        for name, datatype, dims in specs
    )


def write_onnx(repository: Path, name: str, model: bytes, config: str, version: int = 1) -> Path:
    """A model directory of backend onnxruntime; its version directory."""
    directory = repository / name / str(version)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(model)
    (directory.parent / "config.pbtxt").write_text(f'backend: "onnxruntime"\n{config}')
    return directory


def completed(directory: Path, text: str) -> model_config_pb2.ModelConfig:
    """config.pbtxt's text after the backend's auto-completion."""
    message = text_format.Parse(text, model_config_pb2.ModelConfig(name="m", backend="onnxruntime"))
    OnnxRuntimeBackend().complete(directory, message)
    return message


def config_of(text: str, name: str = "m", backend: str = "onnxruntime") -> ModelConfig:
    return check_config(text_format.Parse(text, model_config_pb2.ModelConfig(name=name, backend=backend)))


def as_bytes(array: np.ndarray) -> bytes:
    return pack_strings(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()


def share(config: ModelConfig, *outputs: str, **arrays: np.ndarray) -> Share:
    """A whole request, checked like a client's."""
    datatypes = {spec.name: spec.datatype for spec in config.inputs}
    inputs = tuple(
        InputTensor(name, datatypes[name], array.shape, memoryview(as_bytes(array))) for name, array in arrays.items()
    )
    request = InferRequest("", inputs, tuple(WantedOutput(name) for name in outputs))
    checked = check(request, config)
    return Share(PendingRequest(checked, lambda _request, answer: answer, 0), 0, checked.rows)


def arrays_of(answer: Answer, config: ModelConfig) -> dict[str, np.ndarray]:
    """An answer's outputs by name; BYTES as objects."""
    outputs = {}
    for output in answer.outputs:
        data = b"".join(output.chunks)
        assert len(data) == output.size_bytes
        outputs[config.outputs[output.position].name] = _array(data, output.datatype).reshape(output.shape)
    return outputs


def _array(data: bytes, datatype: str) -> np.ndarray:
    if datatype != "BYTES":
        return np.frombuffer(data, DATATYPES[datatype].numpy)
    elements, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        elements.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return np.array(elements, object)
