# SPDX-License-Identifier: Apache-2.0
"""No request is lost while two of three servers go away and the third fails 30 % of its calls: FACILE on real servers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.optional import needs_build

ROOT = Path(__file__).resolve().parents[2]


@needs_build
@pytest.mark.slow
def test_2000_requests_survive_a_killed_a_draining_and_a_failing_server() -> None:
    argv = [sys.executable, "bench/client_faults.py", "--requests", "2000", "--json"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert (figures["requests"], figures["lost"], figures["answered_twice"], figures["wrong"]) == (2000, 0, 0, 0)
    assert figures["integers_equal_to_csim"] == 50 * 40
    assert all(failed > 0 for failed in figures["failed_attempts"]), "each of the three faults was met"
