# SPDX-License-Identifier: Apache-2.0
"""The guide's Python program, run as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hypersonic.hls.child import python_environment

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


def test_the_guides_program_builds_serves_and_compares_a_model(tmp_path: Path) -> None:
    section = GUIDE.read_text().partition("### From Python")[2]
    match = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert match
    done = subprocess.run(
        [sys.executable, "-P", "-c", match[1]],
        cwd=tmp_path,
        env=python_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "facile_1\n"), done.stderr
