# SPDX-License-Identifier: Apache-2.0
"""Sums that hls4ml gives narrow types: the plugin computes what hls4ml does, with a warning, or holds them on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]

#: network -> what its warning contains
WARNED = {
    "pooled": "layer 'mean': its sums need 9 integer bits, and its accum is fixed<16,6,",
    "recurrent": "layer 'state': its sums need 7 integer bits, and its accum is fixed<16,6,",
    "normal": "['LayerName']['normal']['TableRangePower2'] = -4 for a table up to a variance of 16",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("types")
    argv = [sys.executable, str(Path(__file__).with_name("types_session.py")), str(directory)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads((directory / "types.json").read_text()))


@pytest.mark.parametrize("network", WARNED)
def test_without_a_word_the_core_equals_vitis_and_one_warning_names_the_layer(session: dict[str, Any], network: str) -> None:
    found = session[network]
    assert found["equal"]
    (said,) = found["said"]["Hypersonic"]
    assert WARNED[network] in said
    assert "config['Model']['types'] = 'exact'" in said


@pytest.mark.parametrize("network", WARNED)
def test_exact_types_are_those_of_a_build_without_a_warning(session: dict[str, Any], network: str) -> None:
    found = session[network]
    assert found["said"]["exact"] == []
    assert found["apart"]["exact"] < 0.1
    assert found["apart"]["exact"] <= found["apart"]["Vitis"]


def test_another_word_than_exact_is_refused(session: dict[str, Any]) -> None:
    assert session["misspelt"] == "config['Model']['types'] is 'exakt', expected 'exact', or leave it out"
