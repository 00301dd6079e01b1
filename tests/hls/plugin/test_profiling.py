# SPDX-License-Identifier: Apache-2.0
"""hls4ml's profiling with our backend. Its pandas and seaborn are in an environment of their own, not in this project's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environments import environment, site_packages

pytestmark = pytest.mark.whole

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def test_hls4mls_numerical_profiling_draws_weights_and_activations(tmp_path: Path) -> None:
    packages = site_packages(environment(HERE / "profiling.txt"))
    done = subprocess.run(
        [sys.executable, str(HERE / "profiling_session.py"), str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}", "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    weights, weights_after, activations, activations_after = json.loads((tmp_path / "names.json").read_text())
    assert weights == weights_after == ["logits/w", "hidden/w"]
    assert activations == ["softmax", "logits", "hidden"]
    assert activations_after == ["softmax", "logits", "hidden_relu", "hidden"]
