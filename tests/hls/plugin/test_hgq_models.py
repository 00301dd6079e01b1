# SPDX-License-Identifier: Apache-2.0
"""Models of HGQ2 with backend="Hypersonic": the trained model's answers in every bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hypersonic.hls.core import Core
from hypersonic.hls.frontend import hgq

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]


def test_the_core_and_hls4mls_cpp_answer_as_the_trained_model_does(tmp_path: Path) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("hgq_session.py")), str(tmp_path)]
    environment = hgq.environment()
    environment["PYTHONPATH"] += f":{ROOT}"
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    session = json.loads((tmp_path / "session.json").read_text())
    assert session["equal"] == {"Vitis": True, "Hypersonic": True}
    assert session["types alike"]
    assert min(session["distinct"]) > 8
    assert max(session["distinct"]) > 50
    assert session["warnings"] == []
    assert session["stream"].startswith("UnsupportedLayerError: layer 'q_conv2d_iq': hls4ml computes HGQ2's quantisers in io_p")
    assert Core.load(tmp_path / "Hypersonic" / "core").kind == "da"
