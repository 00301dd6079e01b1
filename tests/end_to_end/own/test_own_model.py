# SPDX-License-Identifier: Apache-2.0
"""A user's own model with default layer names, float64 rows and one-hot labels, in a directory of its own."""

from __future__ import annotations

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


def test_a_new_yaml_builds_as_it_is_and_is_close_to_the_trained_model(mine: Path, tmp_path: Path) -> None:
    done = hypersonic("new", mine / "mine.keras", "--rows", mine / "rows.npy")
    assert (done.returncode, done.stdout) == (0, f"{mine / 'mine.yaml'}\n"), done.stderr
    done = hypersonic("build", mine / "mine.keras", "--target", "sw_emu", *places(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert "accuracy: 600 rows (rows.npy) against the trained model: " in done.stdout
    assert float(done.stdout.partition("worst difference ")[2].partition(",")[0]) < 0.02


def test_rows_that_are_not_the_models_are_refused_by_new(mine: Path, tmp_path: Path) -> None:
    done = hypersonic("new", mine / "mine.keras", "--rows", mine / "labels.npy", "--output", tmp_path / "own.yaml")
    refused(done, "labels.npy: rows of input_1 have shape (600, 3), expected (rows, 6)")
    assert not list(tmp_path.iterdir())
