# SPDX-License-Identifier: Apache-2.0
"""The planner is loaded when it is used, and not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("code", ["import hypersonic.client", "import hypersonic.cli; hypersonic.cli.make_parser()"])
def test_client_and_command_line_load_nothing_of_the_planner(code: str) -> None:
    program = f"import sys\n{code}\nprint(*(name for name in sys.modules if 'hypersonic.plan' in name or 'farm' in name))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
