# SPDX-License-Identifier: Apache-2.0
"""A user's own model with default layer names, float64 rows and one-hot labels, in a directory of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.child import keras_2_environment, script_argv
from tests.end_to_end.command_line import hypersonic, places, refused

pytestmark = pytest.mark.whole("client", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the stranger's model, rows and labels."""
    directory = tmp_path_factory.mktemp("mine")
    script = Path(__file__).with_name("own_model.py")
    subprocess.run(script_argv(script, str(directory)), env=keras_2_environment(), check=True, capture_output=True)
    return directory


def test_a_model_without_a_yaml_is_described_built_served_and_judged_by_one_command(mine: Path, tmp_path: Path) -> None:
    files = (mine / "mine.keras", "--rows", mine / "rows.npy", "--labels", mine / "labels.npy")
    done = hypersonic("run", *files, "--target", "sw_emu", "--events", "7", *places(tmp_path), "--output", tmp_path / "result")
    assert done.returncode == 0, done.stderr
    assert f"{mine / 'mine.yaml'} was missing and is written" in done.stderr
    assert "WARNING" not in done.stderr
    assert "mine: 600 rows in 7 requests from 4 clients" in done.stdout
    figures = json.loads((tmp_path / "result" / "figures.json").read_text())
    assert (figures["requests"], figures["rows"], figures["integers_equal_to_csim"]) == (7, 600, 600 * 3)
    assert not [name for name in figures if "event" in name]
    assert figures["own"]["accuracy"]["served"] > 0.9
    assert abs(figures["own"]["accuracy"]["served"] - figures["own"]["accuracy"]["trained"]) < 0.01
    assert figures["own"]["from the trained model"]["served"] < 0.02
    assert "the trained model's 0.9" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("next: hypersonic serve --model-repository ")
    assert (tmp_path / "result" / "result.png").read_bytes().startswith(b"\x89PNG")


def test_labels_and_rows_of_another_model_are_refused_before_the_kernel_is_built(mine: Path, tmp_path: Path) -> None:
    shutil.copy(mine / "mine.keras", tmp_path / "other.keras")
    files = (tmp_path / "other.keras", "--rows", mine / "rows.npy", "--labels", tmp_path / "wrong.npy")
    np.save(tmp_path / "wrong.npy", np.eye(5)[np.arange(600) % 5])
    done = hypersonic("run", *files, *places(tmp_path))
    refused(done, "labels of ", "have shape (600, 5), expected (600,) for classes, or (600, 3)")
    np.save(tmp_path / "wrong.npy", np.load(mine / "rows.npy")[:, 1:])
    done = hypersonic("run", tmp_path / "other.keras", "--rows", tmp_path / "wrong.npy", *places(tmp_path))
    refused(done, "wrong.npy: rows of ", "have shape (600, 5), expected (rows, 6) with 1 or more rows")
    assert not (tmp_path / "other").exists()


def test_a_report_of_a_model_with_a_type_too_narrow_names_the_layer_where_the_difference_begins(
    mine: Path, tmp_path: Path
) -> None:
    text, changed = re.subn(r'(dense_relu: .*"ap_ufixed<16),\d+', r"\1,-1", (mine / "mine.yaml").read_text())
    assert changed == 1
    (tmp_path / "narrow.yaml").write_text(text)
    for file in ("mine.keras", "rows.npy"):
        shutil.copy(mine / file, tmp_path / file.replace("mine", "narrow"))
    files = (tmp_path / "narrow.yaml", "--rows", mine / "rows.npy", "--labels", mine / "labels.npy")
    done = hypersonic("report", *files, "--output", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads((tmp_path / "report" / "figures.json").read_text())
    assert (line["model"], line["rows"], line["equal"], line["core"]) == ("mine", 600, 600 * 3, "rf")
    assert line["parameters"] == 6 * 4 + 6 * 6 + 6 + 6 * 3 + 3
    assert line["merit"]["float"] > 0.9
    assert "accuracy: csim 0." in done.stdout
    assert "dense_1: far from the trained model: rms difference" in done.stdout
    assert "the difference begins in 'dense_relu' (Activation)" in done.stdout
    assert "write ap_ufixed<21,4,AP_RND,AP_SAT> in hls4ml.LayerName.dense_relu.Precision.result" in done.stdout
    assert "WARNING: `hypersonic build` refuses it: model 'mine' is far from the trained model" in done.stdout
    layers = [words[0] for words in map(str.split, done.stdout.splitlines()) if len(words) > 2 and words[1].startswith("ap_")]
    assert layers == ["input_1", "batch_normalization", "dense", "dense_relu", "dense_1", "dense_1_softmax"]
    assert (tmp_path / "report" / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_types_are_tuned_within_a_loss_and_the_yaml_builds(mine: Path, tmp_path: Path) -> None:
    """Two candidates: the first types, and a step of the bisection."""
    for file in ("mine.keras", "rows.npy", "labels.npy"):
        shutil.copy(mine / file, tmp_path)
    model = tmp_path / "mine.keras"
    files = (model, "--rows", tmp_path / "rows.npy", "--labels", tmp_path / "labels.npy")
    done = hypersonic("tune", *files, "--fit", "u250", "--loss", "2%", "--trials", "2")
    assert done.returncode == 0, done.stderr
    assert "candidate 1 of 2: " in done.stderr
    lines = done.stdout.splitlines()
    assert lines[-2:] == [f"picture: {tmp_path / 'mine.tune.png'}", str(tmp_path / "mine.yaml")]
    (chosen,) = [line.split() for line in lines if line.endswith("  chosen")]
    assert float(chosen[0].rstrip("%")) <= 2
    assert "2 candidates on 450 rows; the search ended because 2 candidates were tried" in done.stdout
    assert re.search(r"chosen: loss .* on 150 rows that the search did not use", done.stdout)
    assert (tmp_path / "mine.tune.png").read_bytes().startswith(b"\x89PNG")
    assert "# Far from the trained model all the same: a probability is off by" in (tmp_path / "mine.yaml").read_text()
    types = re.findall(r"precision: ap_u?fixed<(\d+)", (tmp_path / "mine.yaml").read_text())
    assert all(int(width) < 16 for width in types)
    done = hypersonic("build", model, "--target", "sw_emu", "--no-resources", *places(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "accuracy: 600 rows (rows.npy) against the trained model" in done.stdout
    (manifest,) = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text())["report"]["gate"]["accepted"]
    refused(hypersonic("tune", *files), "mine.yaml exists; --force replaces it, --output writes another file")


def test_a_model_that_cannot_be_read_is_refused_by_new_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "torn.onnx").write_bytes(b"not a model")
    done = hypersonic("new", tmp_path / "torn.onnx")
    refused(done, "torn.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["torn.onnx"]
