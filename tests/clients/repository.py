# SPDX-License-Identifier: Apache-2.0
"""The models the published examples ask for, by the names they use, and as ONNX graphs where ONNX has the operators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import parser

from tests.reference.repository import Model, Models, addsub, ensemble, sequence, step, tensors, write

_PIXELS, _SCORES = "PIXELS FP32 3,4,4", tensors("output", 'SCORES FP32 3 label_filename:"labels.txt"')
_IMAGE = tensors("input", "IMAGE STRING 1")
_NCHW = "max_batch_size: 4\n" + tensors("input", f"{_PIXELS} format:FORMAT_NCHW") + _SCORES
_LABELS = {"labels.txt": "red\ngreen\nblue\n"}
_STRINGS = "max_batch_size: 8\n" + tensors("input", "INPUT0 STRING -1") + tensors("output", "OUTPUT0 STRING -1")


def _sequences(strategy: str, controls: Mapping[str, str], more: str = "") -> str:
    """Configuration of a sequence model INPUT -> OUTPUT. controls: name and datatype of those it sees."""
    rows = [
        f'{{ name: "{name}" control [ {{ kind: CONTROL_SEQUENCE_{name} '
        + ("data_type: TYPE_" + datatype if name == "CORRID" else "int32_false_true: [ 0, 1 ]")
        + " } ] }"
        for name, datatype in controls.items()
    ]
    idle = "max_sequence_idle_microseconds: 60000000"  # the default is 1 s, which a client on a loaded machine may wait
    batching = f"sequence_batching {{ {strategy} {idle} {more} control_input [ {', '.join(rows)} ] }}\n"
    return "max_batch_size: 4\n" + tensors("input", "INPUT INT32 1") + tensors("output", "OUTPUT INT32 1") + batching


_TWO = {"START": "INT32", "READY": "INT32"}
_ALL = {**_TWO, "END": "INT32"}
_DIRECT, _OLDEST = "direct { }", "oldest { max_candidate_sequences: 4 }"
_SIMPLE_SEQUENCE = _sequences(_DIRECT, _TWO)
_DYNA_SEQUENCE = _sequences(_OLDEST, _ALL | {"CORRID": "UINT64"})
_STRING_SEQUENCE = _sequences(_OLDEST, _ALL | {"CORRID": "STRING"})
_TOTAL = 'state [ { input_name: "BEFORE" output_name: "TOTAL" data_type: TYPE_INT32 dims: [ 1 ] } ]'


def _classifier(model: str) -> Model:
    """The files themselves -> scores, by `image` and the named model."""
    return ensemble(
        "max_batch_size: 4\n" + _IMAGE + _SCORES,
        step("image", {"IMAGE": "IMAGE"}, {"PIXELS": "pixels"}),
        step(model, {"PIXELS": "pixels"}, {"SCORES": "SCORES"}),
    )._replace(files=_LABELS)


#: waits for company, so that requests of several threads meet whatever the machine is busy with
_PATIENT = "max_batch_size: 16000\ndynamic_batching { preferred_batch_size: [ 16000 ] max_queue_delay_microseconds: 10000 }\n"


PYTHON: Models = {
    "simple": addsub("INT32", "dynamic_batching { }\n"),
    "simple_int8": addsub("INT8"),
    "simple_string": addsub("STRING"),
    "simple_identity": Model("identity", _STRINGS),
    "custom_identity_int32": Model("identity", _STRINGS.replace("STRING", "INT32")),
    "simple_sequence": Model("step", _SIMPLE_SEQUENCE),
    "simple_dyna_sequence": Model("step", _DYNA_SEQUENCE),
    "simple_string_dyna_sequence": Model("total", _STRING_SEQUENCE),
    "running_sum": sequence(_DIRECT),
    "controlled": Model("auto", ""),
    "repeat_int32": Model(
        "repeat",
        "max_batch_size: 0\nmodel_transaction_policy { decoupled: true }\n"
        + tensors("input", "IN INT32 -1")
        + tensors("output", "OUT INT32 1", "IDX UINT32 1"),
    ),
    "repeat_delayed": Model(
        "delayed",
        "max_batch_size: 0\nmodel_transaction_policy { decoupled: true }\n"
        + tensors("input", "IN INT32 -1", "DELAY UINT32 -1", "WAIT UINT32 1")
        + tensors("output", "OUT INT32 1"),
    ),
    "image": Model("image", "max_batch_size: 4\n" + _IMAGE + tensors("output", _PIXELS)),
    "channels": Model("channels", _NCHW, files=_LABELS),
    "image_channels": _classifier("channels"),
    "slow": Model("slow", "max_batch_size: 1\n" + tensors("input", "INPUT0 INT32 1") + tensors("output", "OUTPUT0 INT32 1")),
    "facile": Model(
        "facile",
        _PATIENT + tensors("input", "input_1 FP32 15") + tensors("output", "output FP32 1"),
    ),
    "mycnn": Model(
        "patches",
        "max_batch_size: 256\ndynamic_batching { max_queue_delay_microseconds: 100 }\n"
        + tensors("input", "main_input FP32 48,48,1")
        + tensors("output", "em_trk_none_netout/Softmax FP32 3", "michel_netout/Sigmoid FP32 1"),
    ),
}


class Graph(NamedTuple):
    """A model of the `onnxruntime` backend. text: the graph in ONNX's own notation; config: what its signature does not say."""

    text: str
    config: str
    files: Mapping[str, str] = {}


_ADDSUB = """addsub ({t}[n,16] INPUT0, {t}[n,16] INPUT1) => ({t}[n,16] OUTPUT0, {t}[n,16] OUTPUT1) {{
  a = Cast <to = 6> (INPUT0)
  b = Cast <to = 6> (INPUT1)
  sum = Add (a, b)
  difference = Sub (a, b)
  OUTPUT0 = Cast <to = {to}> (sum)
  OUTPUT1 = Cast <to = {to}> (difference)
}}"""
_IDENTITY = "identity ({t}[n,m] INPUT0) => ({t}[n,m] OUTPUT0) {{ OUTPUT0 = Identity (INPUT0) }}"
_STEP = """step (int32[n,1] INPUT, int32[n,1] START, int32[n,1] READY) => (int32[n,1] OUTPUT) {
  OUTPUT = Add (INPUT, START)
}"""
_DYNA_STEP = """step (int32[n,1] INPUT, int32[n,1] START, int32[n,1] READY, int32[n,1] END, uint64[n,1] CORRID)
  => (int32[n,1] OUTPUT) {
  id = Cast <to = 6> (CORRID)
  last = Mul (END, id)
  first = Add (INPUT, START)
  OUTPUT = Add (first, last)
}"""
_STRING_TOTAL = """total (int32[n,1] INPUT, int32[n,1] BEFORE, int32[n,1] START, int32[n,1] READY, int32[n,1] END,
  string[n,1] CORRID) => (int32[n,1] OUTPUT, int32[n,1] TOTAL) {
  id = Cast <to = 6> (CORRID)
  last = Mul (END, id)
  TOTAL = Add (BEFORE, INPUT)
  OUTPUT = Add (TOTAL, last)
}"""
_CHANNELS = """channels (float[n,3,4,4] PIXELS) => (float[n,3] SCORES) {
  pooled = GlobalAveragePool (PIXELS)
  SCORES = Flatten (pooled)
}"""
_FACILE = """facile (float[n,15] input_1) => (float[n,1] output) {
  axis = Constant <value_ints = [1]> ()
  output = ReduceSum <keepdims = 1> (input_1, axis)
}"""
_PATCHES = """patches (float[n,48,48,1] main_input) => (float[n,3] "em_trk_none_netout/Softmax", float[n,1] "michel_netout/Sigmoid") {
  axes = Constant <value_ints = [1, 2]> ()
  most = ReduceMax <axes = [1, 2], keepdims = 0> (main_input)
  "michel_netout/Sigmoid" = ReduceMin <axes = [1, 2], keepdims = 0> (main_input)
  total = ReduceSum <keepdims = 0> (main_input, axes)
  "em_trk_none_netout/Softmax" = Concat <axis = 1> (most, "michel_netout/Sigmoid", total)
}"""

ONNX: Mapping[str, Graph] = {
    "simple_onnx": Graph(_ADDSUB.format(t="int32", to=6), "max_batch_size: 8\ndynamic_batching { }\n"),
    "simple_int8_onnx": Graph(_ADDSUB.format(t="int8", to=3), "max_batch_size: 8\n"),
    "simple_string_onnx": Graph(_ADDSUB.format(t="string", to=8), "max_batch_size: 8\n"),
    "simple_identity_onnx": Graph(_IDENTITY.format(t="string"), "max_batch_size: 8\n"),
    "custom_identity_int32_onnx": Graph(_IDENTITY.format(t="int32"), "max_batch_size: 8\n"),
    "simple_sequence_onnx": Graph(_STEP, _SIMPLE_SEQUENCE),
    "simple_dyna_sequence_onnx": Graph(_DYNA_STEP, _DYNA_SEQUENCE),
    "simple_string_dyna_sequence_onnx": Graph(_STRING_TOTAL, _sequences(_OLDEST, _ALL | {"CORRID": "STRING"}, _TOTAL)),
    "controlled_onnx": Graph(_ADDSUB.format(t="int32", to=6), "max_batch_size: 8\n"),
    "channels_onnx": Graph(_CHANNELS, _NCHW, _LABELS),
    "facile_onnx": Graph(_FACILE, _PATIENT),
    "mycnn_onnx": Graph(_PATCHES, "max_batch_size: 256\ndynamic_batching { max_queue_delay_microseconds: 100 }\n"),
}


def write_python(directory: Path) -> Path:
    """Write the Python models, for either server."""
    return write(directory, PYTHON)


def write_both(directory: Path) -> Path:
    """Write all models, for our server; the ONNX models are called <name>_onnx."""
    write(directory, {**PYTHON, "image_channels_onnx": _classifier("channels_onnx")})
    for name, graph in ONNX.items():
        _save(directory / name, graph)
    return directory


def _save(directory: Path, graph: Graph) -> None:
    model: Any = parser.parse_model('<ir_version: 8, opset_import: ["": 17]>\n' + graph.text)
    onnx.checker.check_model(model)
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text('platform: "onnxruntime_onnx"\n' + graph.config)
    for name, text in graph.files.items():
        (directory / name).write_text(text)
    onnx.save(model, directory / "1" / "model.onnx")
