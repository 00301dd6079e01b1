# SPDX-License-Identifier: Apache-2.0
"""Run the command `hypersonic` as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def hypersonic(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hypersonic.cli", *map(str, argv)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def places(directory: Path) -> list[str | Path]:
    """Options that keep a build out of the checkout."""
    return ["--model-repository", directory, "--build-directory", directory / "build"]


def refused(done: subprocess.CompletedProcess[str], *texts: str) -> None:
    """Exit code 2 and one paragraph on standard error that holds all of `texts`, no traceback."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "hypersonic: error: " in done.stderr
    for text in texts:
        assert text in done.stderr
