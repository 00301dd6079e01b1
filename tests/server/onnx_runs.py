# SPDX-License-Identifier: Apache-2.0
"""Load and run ONNX models without a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from hypersonic.server.backends.onnxruntime.backend import OnnxModel, OnnxRuntimeBackend
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.errors import ModelLoadError
from tests.server.onnx_graphs import arrays_of, config_of, graph, node, tensors, write_onnx


def load(tmp_path: Path, model: bytes, text: str) -> tuple[OnnxModel, ModelConfig]:
    directory = write_onnx(tmp_path, "m", model, text)
    config = config_of(text)
    return OnnxRuntimeBackend().load(directory, config), config


def run(model: OnnxModel, config: ModelConfig, *shares: Share) -> list[dict[str, np.ndarray]]:
    """One run of all shares."""
    slot = model.instances[0].slots[0]
    slot.start(shares)
    launched = slot.finish()
    assert launched.launched_ns <= launched.done_ns
    return [arrays_of(slot.answer(index), config) for index in range(len(shares))]


def refused(tmp_path: Path, model: bytes, text: str) -> str:
    with pytest.raises(ModelLoadError) as raised:
        load(tmp_path, model, text)
    return str(raised.value)


def same(datatype: str, max_batch_size: int = 8, dims: Sequence[int] = (3,)) -> str:
    """config.pbtxt of an identity."""
    return (
        f"max_batch_size: {max_batch_size}\n"
        + tensors("input", ("x", datatype, dims))
        + tensors("output", ("y", datatype, dims))
    )


VALUES = {
    "BOOL": np.array([True, False, True]),
    "UINT8": np.array([0, 1, 255], np.uint8),
    "UINT16": np.array([0, 1, 65535], np.uint16),
    "UINT32": np.array([0, 1, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 1, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 1, 127], np.int8),
    "INT16": np.array([-(2**15), 1, 2**15 - 1], np.int16),
    "INT32": np.array([-(2**31), 1, 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 1, 2**63 - 1], np.int64),
    "FP16": np.array([0.5, -65504, np.inf], np.float16),
    "FP32": np.array([0.1, -1e38, 1e-45], np.float32),
    "FP64": np.array([0.1, -1e308, 5e-324]),
    "BYTES": np.array([b"", "Größe\0".encode(), b"c"], object),
    "BF16": np.array([1.5, -2.0, 3e38], ml_dtypes.bfloat16).view(np.uint16),
}


RAGGED = (
    "max_batch_size: 8\n"
    + tensors("input", ("x", "FP32", [-1]), extra="allow_ragged_batch: true")
    + tensors("output", ("y", "FP32", [1]))
    + 'batch_input [ { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ends" data_type: TYPE_INT32 source_input: "x" } ]'
)


def ragged_sums() -> bytes:
    """y[i] = sum of request i's elements: differences of the cumulative sum at each request's end."""
    nodes = [
        node("CumSum", "x zero", "c"),
        node("Cast", "ends", "ends64", to=TensorProto.INT64),
        node("Sub", "ends64 one", "last"),
        node("Gather", "c last", "at_end"),
        node("Concat", "zero_f at_end", "padded", axis=0),
        node("Slice", "padded start stop", "before"),
        node("Sub", "at_end before", "flat"),
        node("Unsqueeze", "flat axes", "y"),
    ]
    constants = {
        "zero": np.array(0),
        "one": np.array(1),
        "zero_f": np.zeros(1, np.float32),
        "start": np.array([0]),
        "stop": np.array([-1]),
        "axes": np.array([1]),
    }
    return graph(nodes, [("x", "FP32", ("T",)), ("ends", "INT32", ("N",))], [("y", "FP32", ("N", 1))], constants)
