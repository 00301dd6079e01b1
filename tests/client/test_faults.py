# SPDX-License-Identifier: Apache-2.0
"""No request is lost and no row is wrong while servers go away, fail, drop rows and change versions: FACILE on real servers."""

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
def test_800_requests_survive_servers_that_are_killed_draining_failing_wrong_and_of_two_versions() -> None:
    argv = [sys.executable, "bench/client_faults.py", "--requests", "800", "--json"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert (figures["requests"], figures["lost"], figures["answered_twice"], figures["wrong"]) == (800, 0, 0, 0)
    assert figures["integers_equal_to_csim"] == 50 * 40
    assert all(failed > 0 for failed in figures["failed_attempts"][:4]), "each of the four faults was met"
    assert set(figures["versions"]) == {"1", "2"}
