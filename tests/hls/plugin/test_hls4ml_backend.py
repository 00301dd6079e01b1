# SPDX-License-Identifier: Apache-2.0
"""The plugin as hls4ml's own users meet it: found by its entry point, and equal to the Vitis backend bit for bit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.hls import backend
from hypersonic.hls.core import Core
from tests.hls.plugin.plugin_session import OTHER_KINDS

ROOT = Path(__file__).resolve().parents[3]

#: hls4ml's strategy -> the core it means
UNROLLED = {"Latency": "da", "distributed_arithmetic": "da"}


def test_the_entry_point_names_the_register_function() -> None:
    (entry,) = entry_points(group="hls4ml.backends", name="hypersonic")
    assert entry.load() is backend.register


@pytest.mark.whole
@pytest.mark.parametrize(
    ("model", "cores"),
    [
        ("chain", UNROLLED),
        pytest.param("graph", {"Latency": "da", "": "da"}, marks=pytest.mark.whole),
        pytest.param("image", {"ResourceUnrolled": "rf"}, marks=pytest.mark.whole),
    ],
)
def test_compile_predict_and_build_work_and_predict_equals_the_vitis_backend(
    tmp_path: Path, model: str, cores: dict[str, str]
) -> None:
    sessions = run(tmp_path, model, *(["both keras"] if model == "chain" else []))
    session = sessions[model]
    assert session["equal"] == {f"Hypersonic {strategy}": True for strategy in cores}
    assert session["distinct"] > 100
    for kind, message in zip(OTHER_KINDS, session["refused"], strict=True):
        wanted = f"input '.*' is an array of {np.dtype(kind)}, expected float32 or float64, .*: use x.astype"
        assert re.match(wanted, message), message
    assert len(session["misshapen"]) == 2
    for message in session["misshapen"]:
        assert re.match(r"input '.*' is an array of shape \(.*\), expected \(rows, ", message), message
    for strategy, kind in cores.items():
        written, report = tmp_path / model / f"Hypersonic_{strategy}", session["reports"][strategy]["CoreReport"]
        core = Core.load(written / "core")
        assert (core.kind, core.ii, core.latency_cycles) == (kind, report["ii"], report["latency_cycles"])
        assert (written / "build_prj.tcl").is_file()
    assert session["warnings"] == []
    told = [(tuple(each["lines"]), tuple(each["far"])) for each in session["told"].values()]
    assert len(set(told)) == 1, "all backends are as far from the trained model"
    assert "rows (given): worst difference against the trained model " in told[0][0][0]
    if model == "chain":  # in the same session, because to import TensorFlow takes longer
        assert session["bits"] > 64
        assert session["traced alike"] == ["answers", "a", "a_relu", "b", "c"]
        keras_2, keras_3 = sessions["both keras"]["read"]
        assert keras_2 == keras_3
        assert len(keras_2) > 2
        assert sessions["both keras"]["import keras"] == "keras"


def run(directory: Path, *models: str) -> dict[str, Any]:
    """The output of a session with these models, by model."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, str(Path(__file__).with_name("plugin_session.py")), str(directory), *models]
    done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads((directory / "session.json").read_text()))
