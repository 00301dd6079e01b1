# SPDX-License-Identifier: Apache-2.0
"""The models the published examples ask for, by the names they use, and as ONNX graphs where ONNX has the operators."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.reference.repository import Model, Models, addsub, ensemble, sequence, step, tensors, write

_IMAGE, _PIXELS = tensors("input", "IMAGE STRING 1"), "PIXELS FP32 3,4,4"
_SCORES = tensors("output", 'SCORES FP32 3 label_filename:"labels.txt"')
_LABELS = {"labels.txt": "red\ngreen\nblue\n"}

PYTHON: Models = {
    "simple": addsub("INT32", "dynamic_batching { }\n"),
    "simple_int8": addsub("INT8"),
    "simple_string": addsub("STRING"),
    "simple_identity": Model(
        "identity", "max_batch_size: 8\n" + tensors("input", "INPUT0 STRING -1") + tensors("output", "OUTPUT0 STRING -1")
    ),
    "simple_sequence": sequence("direct { }"),
    "simple_dyna_sequence": sequence("oldest { max_candidate_sequences: 4 }"),
    "repeat_int32": Model(
        "repeat",
        "max_batch_size: 0\nmodel_transaction_policy { decoupled: true }\n"
        + tensors("input", "IN INT32 -1")
        + tensors("output", "OUT INT32 1", "IDX UINT32 1"),
    ),
    "image": Model("image", "max_batch_size: 4\n" + _IMAGE + tensors("output", _PIXELS)),
    "channels": Model("channels", "max_batch_size: 4\n" + tensors("input", _PIXELS) + _SCORES, files=_LABELS),
    "image_channels": ensemble(
        "max_batch_size: 4\n" + _IMAGE + _SCORES,
        step("image", {"IMAGE": "IMAGE"}, {"PIXELS": "pixels"}),
        step("channels", {"PIXELS": "pixels"}, {"SCORES": "SCORES"}),
    )._replace(files=_LABELS),
    "slow": Model("slow", "max_batch_size: 1\n" + tensors("input", "INPUT0 INT32 1") + tensors("output", "OUTPUT0 INT32 1")),
    "facile": Model(
        "facile",
        "max_batch_size: 16000\ndynamic_batching { preferred_batch_size: [ 16000 ] }\n"
        + tensors("input", "input_1 FP32 15")
        + tensors("output", "output FP32 1"),
    ),
}  # fmt: skip


def write_python(directory: Path) -> Path:
    """For either server."""
    return write(directory, PYTHON)


def write_both(directory: Path) -> Path:
    """For ours: the ONNX ones are called <name>_onnx, without configurations of their own but for labels and batches."""
    write(directory, PYTHON)
    save(directory / "simple_onnx", addsub_graph(TensorProto.INT32), "max_batch_size: 8\ndynamic_batching { }\n")
    save(directory / "simple_int8_onnx", addsub_graph(TensorProto.INT8), "max_batch_size: 8\n")
    save(directory / "simple_identity_onnx", identity_graph(), "max_batch_size: 8\n")
    save(directory / "channels_onnx", channels_graph(), "max_batch_size: 4\n" + _SCORES)
    (directory / "channels_onnx" / "labels.txt").write_text(_LABELS["labels.txt"])
    return directory


def save(directory: Path, graph: onnx.GraphProto, config: str) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text('platform: "onnxruntime_onnx"\n' + config)
    onnx.save(model, directory / "1" / "model.onnx")


def addsub_graph(kind: int) -> onnx.GraphProto:
    ins = [helper.make_tensor_value_info(name, kind, ["n", 16]) for name in ("INPUT0", "INPUT1")]
    outs = [helper.make_tensor_value_info(name, kind, ["n", 16]) for name in ("OUTPUT0", "OUTPUT1")]
    wide = [helper.make_node("Cast", [name], [f"{name}_wide"], to=TensorProto.INT32) for name in ("INPUT0", "INPUT1")]
    sums = [helper.make_node(op, ["INPUT0_wide", "INPUT1_wide"], [f"{op}_wide"]) for op in ("Add", "Sub")]
    back = [helper.make_node("Cast", [f"{op}_wide"], [out], to=kind) for op, out in (("Add", "OUTPUT0"), ("Sub", "OUTPUT1"))]
    return helper.make_graph([*wide, *sums, *back], "addsub", ins, outs)


def identity_graph() -> onnx.GraphProto:
    (given,) = (helper.make_tensor_value_info("INPUT0", TensorProto.STRING, ["n", "m"]),)
    (back,) = (helper.make_tensor_value_info("OUTPUT0", TensorProto.STRING, ["n", "m"]),)
    return helper.make_graph([helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])], "identity", [given], [back])


def channels_graph() -> onnx.GraphProto:
    pixels = helper.make_tensor_value_info("PIXELS", TensorProto.FLOAT, ["n", 3, 4, 4])
    scores = helper.make_tensor_value_info("SCORES", TensorProto.FLOAT, ["n", 3])
    nodes = [helper.make_node("GlobalAveragePool", ["PIXELS"], ["pooled"]), helper.make_node("Flatten", ["pooled"], ["SCORES"])]
    return helper.make_graph(nodes, "channels", [pixels], [scores])
