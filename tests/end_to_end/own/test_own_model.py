# SPDX-License-Identifier: Apache-2.0
"""A user's own model with default layer names, float64 rows and one-hot labels, in a directory of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hypersonic.hls.child import keras_2_environment, script_argv
from tests.end_to_end.command_line import hypersonic, places, refused


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
    figures = json.loads((tmp_path / "result" / "figures.json").read_text())
    assert (figures["events"], figures["integers_equal_to_csim"]) == (7, 600 * 3)
    assert figures["own"]["accuracy"]["served"] > 0.9
    assert abs(figures["own"]["accuracy"]["served"] - figures["own"]["accuracy"]["trained"]) < 0.01
    assert figures["own"]["from the trained model"]["served"] < 0.02
    assert "the trained model's 0.9" in done.stdout
    assert (tmp_path / "result" / "result.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_of_ones_own_model_compares_trained_model_csim_and_rtl(mine: Path, tmp_path: Path) -> None:
    done = hypersonic(
        "report", mine / "mine.yaml", "--rows", mine / "rows.npy", "--labels", mine / "labels.npy", "--output", tmp_path
    )
    assert done.returncode == 0, done.stderr
    (line,) = json.loads((tmp_path / "figures.json").read_text())
    assert (line["model"], line["rows"], line["equal"], line["core"]) == ("mine", 600, 600 * 3, "rf")
    assert line["parameters"] == 6 * 4 + 6 * 6 + 6 + 6 * 3 + 3
    assert line["merit"]["csim"] == pytest.approx(line["merit"]["float"], abs=0.01)
    assert "accuracy: csim 0.9" in done.stdout
    assert "dense_1: close to the trained model: rms difference" in done.stdout
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_rows_that_are_not_the_models_are_refused_by_new(mine: Path, tmp_path: Path) -> None:
    done = hypersonic("new", mine / "mine.keras", "--rows", mine / "labels.npy", "--output", tmp_path / "own.yaml")
    refused(done, "labels.npy: rows of input_1 have shape (600, 3), expected (rows, 6)")
    assert not list(tmp_path.iterdir())
