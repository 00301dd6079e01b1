# SPDX-License-Identifier: Apache-2.0
"""A day with a small model of its own: four numbers through a ReLU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper

from hypersonic.firmware.platform import find_platform
from hypersonic.first_day.day import Day
from hypersonic.first_day.record import Record
from hypersonic.host.sysfs import SYSFS

ROWS = 16_000
_YAML = """\
name: relu4
input: {name: x, precision: "ap_fixed<16,8,AP_RND_CONV,AP_SAT>"}
output: {name: y}
hls4ml: {Model: {Precision: {default: "ap_fixed<16,8>"}, Strategy: distributed_arithmetic}}
"""


def relu(x: str, y: str, size: int, node: str, graph: str) -> ModelProto:
    """A model of one ReLU, from the tensor x to the tensor y."""
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in (x, y)]
    nodes = [helper.make_node("Relu", [x], [y], node)]
    made = helper.make_graph(nodes, graph, sides[:1], sides[1:])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="")


def write_model(directory: Path) -> tuple[Path, Path]:
    """Write the model with its YAML and its rows; return the files of model and rows."""
    model, rows = directory / "relu4.onnx", directory / "rows.npy"
    model.write_bytes(relu("x", "y", 4, "relu", "relu4").SerializeToString())
    model.with_suffix(".yaml").write_text(_YAML)
    np.save(rows, np.random.default_rng(1).uniform(-100, 100, (ROWS, 4)).astype(np.float32))
    return model, rows


def make_day(place: Path, *, rehearsal: bool = True, root: Path = SYSFS, card: int = 0) -> Day:
    """A day whose files are in `place`."""
    model, rows = write_model(place)
    record = Record(lambda _line: None)
    return Day(rehearsal, find_platform("u250"), place / "models", str(model), rows, card, 25.0, record, root)
