# SPDX-License-Identifier: Apache-2.0
"""QONNX files as Brevitas writes them, in one process: python tests/hls/frontend/qonnx_session.py DIRECTORY

Writes DIRECTORY/said.json: what is said of files that are refused. DIRECTORY/exact is an exact conversion.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.frontend.onnx.model import load_onnx
from tests.hls.frontend.onnx_files.onnx_cases import Case, Node
from tests.hls.frontend.onnx_files.onnx_session import write

IMAGE = (2, 6, 4)


def quant(x: str, y: str, bits: int, scale: Any, *, signed: int = 1, zero: float = 0, weights: Any = None) -> Node:
    """A Quant of tensor x, or of the constants `weights`. Weights are narrow, as Brevitas writes them."""
    options = {"signed": signed, "narrow": int(weights is not None), "rounding_mode": "ROUND"}
    parameters = [np.asarray(scale, np.float32), np.float32(zero), np.float32(bits)]
    return Node("Quant", [] if x == "" else [x], y, [*([] if weights is None else [weights]), *parameters], options)


def exact() -> Case:
    """QuantIdentity, QuantConv2d with a scale for each channel, QuantReLU, a residual QuantConv2d, MaxPool2d, QuantLinear."""
    per_channel = np.array([1 / 8, 1 / 4, 1 / 16], np.float32).reshape(3, 1, 1, 1)
    nodes = [
        quant("x", "xq", 8, 1 / 32),
        quant("", "w0", 4, per_channel, weights=(3, 2, 3, 3)),
        quant("", "b0", 8, 1 / 64, weights=(3,)),
        Node("Conv", ["xq", "w0", "b0"], "c", [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        Node("Relu", ["c"], "r"),
        quant("r", "rq", 6, 1 / 16, signed=0),
        quant("", "w1", 4, 1 / 8, weights=(3, 3, 1, 1)),
        Node("Conv", ["rq", "w1"], "d", [], {"kernel_shape": [1, 1]}),
        quant("d", "dq", 7, 1 / 16),
        Node("Add", ["dq", "rq"], "s"),
        Node("Relu", ["s"], "t"),
        quant("t", "tq", 6, 1 / 8, signed=0),
        Node("MaxPool", ["tq"], "p", [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Node("Flatten", ["p"], "f"),
        quant("", "w2", 5, 1 / 16, weights=(4, 18)),
        Node("Transpose", ["w2"], "w3", [], {"perm": [1, 0]}),
        quant("", "b2", 8, 1 / 64, weights=(4,)),
        Node("Gemm", ["f", "w3", "b2"], "y"),
    ]
    return Case(nodes, IMAGE, sides=([1, *IMAGE], [1, 4]))


def refused() -> dict[str, Case]:
    """Name -> a network that is refused."""
    product = Node("MatMul", ["q", "w"], "y")
    good, weights = quant("x", "q", 8, 1 / 32), quant("", "w", 4, 1 / 8, weights=(4, 3))
    cases = {
        "weight_scale": [good, quant("", "w", 4, 0.3, weights=(4, 3)), product],
        "input_scale": [quant("x", "q", 8, 0.7), weights, product],
        "zero_point": [quant("x", "q", 8, 1 / 32, zero=2), weights, product],
        "scales": [quant("x", "q", 8, [1 / 32, 1 / 8, 1 / 4, 1]), weights, product],
        "narrow": [quant("x", "q", 8, 1 / 32, signed=0)._replace(options={"signed": 0, "narrow": 1}), weights, product],
    }
    return {name: Case(nodes, (4,), sides=([1, 4], [1, 3])) for name, nodes in cases.items()}


def said(file: Path) -> str:
    try:
        load_onnx(file)
    except ConversionError as error:
        return str(error)
    return "read"


def rows() -> Any:
    """For the gate: channels last, as the model is served; on the grid of the input's type."""
    return np.random.default_rng(1).integers(-300, 300, size=(200, 48)).astype(np.float32) / 64


def main(directory: Path) -> None:
    use_keras_2()
    answers = {name: said(write(case, directory / f"{name}.onnx")) for name, case in refused().items()}
    (directory / "said.json").write_text(json.dumps(answers))
    file = write(exact(), directory / "exact.onnx")
    description = {
        "name": "exact",
        "input": {"precision": "ap_fixed<16,8>"},
        "output": {},
        "gate": {"rows": "tests.hls.frontend.qonnx_session:rows", "tolerance": "none", "quantised_tolerance": 0},
    }
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
    convert(file, directory / "exact", core="csim")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
