# SPDX-License-Identifier: Apache-2.0
"""ONNX files as exporters write them: what hls4ml gets of them is what onnxruntime answers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hypersonic.hls import build as building
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.frontend.onnx.graph import data_files
from hypersonic.hls.project import HlsProject
from tests.hls.frontend.onnx_files.onnx_attention import mixing_cases
from tests.support.session import run_keras_2

pytestmark = pytest.mark.whole  # half a minute of processor time for the files

REFUSED = {
    "named_input": r"tensor 'x': shape is \(1, n\), expected a number for dimension 1, .* new MODEL --shape SIZE",
    "no_input": r"tensor 'x': shape is unknown, expected a number for each dimension after the batch, .* MODEL --shape SIZE",
    "dilated_pool": r"layer 'MaxPool_0' \(node '/0/MaxPool'\): MaxPool with dilations \[2, 2\], which hls4ml ignores",
    "groups": r"layer 'Conv_0' .*: Conv with group=2, 2 channels and 4 filters, for which hls4ml has no C\+\+; expected group",
    "padded_pool": r"layer 'MaxPool_0' .*: MaxPool with pads \[\(0, 1\), \(0, 1\)\], .*; expected half of a window of odd size",
    "ceiling": r"layer 'MaxPool_0' .*: MaxPool with ceil_mode 1, which hls4ml does not have; expected 0",
    "clipped": r"layer 'Clip_0' .*: Clip from 1 to -1; expected a largest number above the smallest",
    "almost_gelu": r"layer 'Erf_0' .*: hls4ml has no layer for Erf",
    "two_scales": r"layer 'QuantizeLinear_0' .*: its scale or zero point is not that of the DequantizeLinear '/1/.*' behind it",
    "odd_range": r"layer 'QuantizeLinear_0' .*: its integers run from -5 to 9, and its zero point is 0; expected all",
    "dynamic": r"layer 'DynamicQuantizeLinear_0' .*: DynamicQuantizeLinear computes with integers; quantise with .*QDQ",
    "lstm_of_rows": r"layer 'LSTM_0' .*: LSTM whose steps are not the second dimension of its input, .*; write it as torch",
    "reversed": r"layer 'LSTM_0' \(node '/1/LSTM'\): LSTM with the direction reverse; expected forward or bidirectional",
    "old_gru": r"layer 'GRU_0' .*: GRU with linear_before_reset 0, which .* ignores; expected 1, as torch writes it",
    "log_softmax": r"layer 'LogSoftmax_0' .*: hls4ml has no layer for LogSoftmax, a logarithm; end the model with Softmax, or",
    "erf": r"layer 'Erf_0' .*: hls4ml has no layer for Erf",
    "merged": r"layer 'Max_0' .*: Max of a constant and a tensor; build it from Add, Sub, Mul, or Div by a constant",
    "mixed_ranks": r"layer 'Mul_0' .*: it merges the shapes \[1, 3, 4\] and \[1, 4\], the rows of one with another axis",
    "old_softmax_flat": r"layer 'Softmax_0' .*: Softmax along axes \[1, 2\] together, as opset 12 has it; expected one axis",
    "training": r"layer 'BatchNormalization_0' .*: BatchNormalization with 5 results; expected one; export .* for inference",
    "training_dropout": r"layer 'Dropout_0' .*: Dropout in training mode, or whose mask is read; export .* for inference",
    "mask": r"layer 'Dropout_0' .*: Dropout in training mode, or whose mask is read; export the model for inference",
}
REFUSED |= dict.fromkeys(
    mixing_cases(),
    r"layer 'Transpose_0' .*: Transpose by \[1, 0, 2\] moves the rows, and they cannot be kept in front; compute",
)
#: images are served with channels last; what has no images as in the file
SHAPES = {
    "cnn": ([6, 4, 2], [4]),
    "conv": ([6, 4, 2], [3, 2, 3]),
    "line": ([8, 3], [2]),
    "mean": ([6, 4, 2], [5]),
    "rows": ([3, 4], [3, 5]),
    "sets": ([4, 3], [2]),
    "keras": ([6, 4, 2], [3]),
    "flat_first": ([2, 6, 4], [2]),
    "flat_last": ([6, 4, 2], [24]),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("onnx")
    run_keras_2(Path(__file__).with_name("onnx_session.py"), where)
    return where


@pytest.fixture(scope="module")
def answers(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "found.json").read_text()))


def test_what_hls4ml_gets_answers_as_onnxruntime_does_with_the_file(answers: dict[str, Any]) -> None:
    read = {name: answer for name, answer in answers.items() if name not in REFUSED}
    assert {name: answer for name, answer in read.items() if isinstance(answer, str)} == {}
    assert {name: worst for name, (worst, *_) in read.items() if worst > 1e-5} == {}
    assert {name: spread for name, (_, spread, *_) in read.items() if spread < 0.1} == {}


def test_images_are_served_with_channels_last_and_all_else_as_in_the_file(answers: dict[str, Any]) -> None:
    assert {name: tuple(answers[name][2:]) for name in SHAPES} == SHAPES


@pytest.mark.parametrize("case", REFUSED)
def test_what_hls4ml_has_no_layer_for_is_refused_by_the_nodes_name(answers: dict[str, Any], case: str) -> None:
    assert re.match(REFUSED[case], str(answers[case])), answers[case]


def test_errors_of_later_steps_name_the_files_node_too(directory: Path) -> None:
    said = (directory / "narrow.txt").read_text()
    assert said.startswith("layer 'Gemm_0' (node '/0/Gemm'): weight runs from ")
    assert "in hls4ml.LayerName.Gemm_0.Precision.weight" in said


def test_a_residual_network_with_a_depthwise_convolution_is_converted(directory: Path) -> None:
    """Its gate has compared it with onnxruntime, tolerance 0.02."""
    project = HlsProject.load(directory / "cnn")
    assert project.inputs.tensors[0].shape == (6, 4, 2)
    assert project.report["channels_first"] == [True], "by which `report` knows the layout of its rows"
    (figures,) = project.report["gate"]["outputs"].values()
    assert figures["greatest"] - figures["least"] > 1
    assert project.report["notes"][0] == "input 'x': rows are (6, 4, 2), channels last; in the file they are (2, 6, 4)"


def test_a_convolution_of_qonnx_runs_for_the_reference(directory: Path) -> None:
    worst, spread = json.loads((directory / "quantised.json").read_text())
    assert 0 < worst < 0.2
    assert spread > 2


def test_weights_beside_an_onnx_file_are_part_of_what_a_build_is_kept_by(directory: Path, tmp_path: Path) -> None:
    for name in ("cnn_external.onnx", "cnn_external.onnx.data"):
        shutil.copy(directory / name, tmp_path)
    file = tmp_path / "cnn_external.onnx"
    file.with_suffix(".yaml").write_text((directory / "cnn.yaml").read_text())
    (data,) = data_files(file)
    assert data.name == "cnn_external.onnx.data"
    assert data in building._parts(file, read_description(file), "da", "")
    assert data_files(directory / "cnn.onnx") == []
    file.write_bytes(b"nothing of the kind")
    assert data_files(file) == []
