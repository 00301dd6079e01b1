# SPDX-License-Identifier: Apache-2.0
"""The command that looks for networks with other answers than hls4ml's C++ (bench/hunt.py)."""

from __future__ import annotations

from bench.hunt import FAMILIES, seeds_line
from tests.hls.rf import families


def test_the_hunt_draws_from_every_family() -> None:
    assert set(FAMILIES) == set(families.FAMILIES)


def test_the_last_line_names_the_seeds_that_were_bad() -> None:
    assert seeds_line(1, 4, [2]) == "3 seeds from 1; different or ended: 2"
    assert seeds_line(1, 4, []) == "3 seeds from 1; none different"
