# SPDX-License-Identifier: Apache-2.0
"""The command that looks for networks with other answers than hls4ml's C++ (bench/hunt.py)."""

from __future__ import annotations

import subprocess
import sys

from bench.hunt import FAMILIES, ROOT, seeds_line
from tests.hls.rf import families


def test_the_hunt_draws_from_every_family() -> None:
    assert set(FAMILIES) == set(families.FAMILIES)


def test_the_last_line_names_the_seeds_that_were_bad() -> None:
    assert seeds_line(1, 4, [2]) == "3 seeds from 1; different or ended: 2"
    assert seeds_line(1, 4, []) == "3 seeds from 1; none different"


def test_a_network_that_hls4ml_has_no_io_stream_for_is_counted_as_refused() -> None:
    argv = [sys.executable, "-m", "bench.hunt", "--first", "1", "--minutes", "0", "--families", "bidirectional"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["seed 1: 0 cores, none different; 1 networks refused", "1 seeds from 1; none different"]
    assert done.returncode == 0
