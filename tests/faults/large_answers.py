# SPDX-License-Identifier: Apache-2.0
"""Two ONNX models: one with a small answer, one whose answer is as large as the request asks for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.server.onnx_graphs import TYPES, graph, node, write_onnx
from tests.server.python_models import FLOATS

LARGE = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ] output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]'


def write_models(repository: Path) -> Path:
    """triple: y = 3 x. large: y = x zeros."""
    shape = ("N", 3)
    three = graph(
        [node("Mul", "x three", "y")], [("x", "FP32", shape)], [("y", "FP32", shape)], {"three": np.array(3, np.float32)}
    )
    write_onnx(repository, "triple", three, FLOATS)
    nodes = [node("Cast", "x", "size", to=TYPES["INT64"]), node("ConstantOfShape", "size", "y")]
    large = graph(nodes, [("x", "FP32", (1,))], [("y", "FP32", ("N",))])
    write_onnx(repository, "large", large, LARGE)
    return repository
