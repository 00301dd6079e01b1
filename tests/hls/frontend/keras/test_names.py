# SPDX-License-Identifier: Apache-2.0
"""Layers may be called anything that Keras takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hypersonic.hls.frontend.description import DescriptionError
from hypersonic.hls.frontend.keras.names import translated
from hypersonic.hls.frontend.settings import check_settings

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[4]


def test_a_network_converts_to_the_same_numbers_whatever_its_layers_are_called(tmp_path: Path) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("odd_names.py")), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    reports = json.loads((tmp_path / "found.json").read_text())
    assert reports["odd"]["gate"] == reports["plain"]["gate"]
    assert reports["odd"]["gate"]["max_abs_difference"] < 0.1
    assert "layer 'a/b' is called 'a_b' in the HLS project" in reports["odd"]["notes"]
    core = tmp_path / "odd" / "project" / "core" / "odd_network.sv"
    assert core.read_text() == (tmp_path / "plain" / "project" / "core" / "odd_network.sv").read_text()


def test_settings_follow_a_layer_to_its_new_name_with_those_of_its_parts() -> None:
    names = {"a/b": "a_b", "a/b_c": "a_b_c"}
    assert translated(names, {"a/b": 1, "a/b_relu": 2, "a/b_c_linear": 3, "d": 4}) == {
        "a_b": 1, "a_b_relu": 2, "a_b_c_linear": 3, "d": 4,
    }  # fmt: skip


def test_layers_of_a_file_without_keras_names_that_differ_in_capitals_only_are_refused() -> None:
    with pytest.raises(DescriptionError, match="layers 'd' and 'D' differ only in case"):
        check_settings({}, {"LayerName": {"d": {}, "D": {}}})
