# SPDX-License-Identifier: Apache-2.0
"""Runs a script of the tests in a process of its own: what imports TensorFlow does that once, for all tests of a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_session(script: Path, *arguments: str | Path, **variables: str) -> None:
    """Run a script to its end; variables: of its environment, beside PYTHONPATH. Fails with the end of what it printed."""
    argv = [sys.executable, str(script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def run_keras_2(script: Path, *arguments: str | Path) -> None:
    """Run a script as run_session does, in which `tensorflow.keras` is Keras 2."""
    run_session(script, *arguments, TF_USE_LEGACY_KERAS="1")
