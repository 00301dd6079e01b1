# SPDX-License-Identifier: Apache-2.0
"""A linear model with packed rows of three bytes: a number, codes with a table that another field selects, and one-hot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = np.arange(-9, 11).reshape(10, 2) / 4.0
FIELDS = [
    {"name": "gain", "bits": 1, "input": False},
    {"name": "ieta", "bits": 6, "signed": True},
    {"name": "adc", "bits": 3, "count": 4, "table": "charges.npy", "select": "gain"},
    {"name": "depth", "bits": 3, "one_hot": 5, "first": 1},
]
CHARGES = np.random.default_rng(3).normal(0, 3, (2, 8))


def write_model(directory: Path, side: dict[str, Any], **fields: Any) -> Path:
    """A linear model of 10 inputs and 2 outputs, as ONNX, with a YAML and a table beside it."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="linear")],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(WEIGHTS.astype(np.float32), "w")],
    )
    file = directory / "codes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), file)
    np.save(directory / "charges.npy", CHARGES)
    whole = {"name": "codes", "input": {"precision": "ap_fixed<16,8,AP_RND_CONV,AP_SAT>", **side}, "output": {}, **fields}
    whole["hls4ml"] = {"Model": {"Precision": {"default": "ap_fixed<16,8>"}, "Strategy": "distributed_arithmetic"}}
    file.with_suffix(".yaml").write_text(yaml.safe_dump(whole))
    return file
