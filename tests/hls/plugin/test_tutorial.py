# SPDX-License-Identifier: Apache-2.0
"""The steps of hls4ml's tutorial with backend="Hypersonic" and nothing else changed, each equal to hls4ml's C++."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _run(tmp_path_factory, "pruned", "images", "two shapes", "split")


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The programs with other settings of the same network."""
    return _run(tmp_path_factory, "dense", "settings", "quantised")


def _run(tmp_path_factory: pytest.TempPathFactory, *programs: str) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("tutorial")
    argv = [sys.executable, str(Path(__file__).with_name("tutorial_session.py")), str(directory), *programs]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads((directory / "session.json").read_text()))


@pytest.mark.whole
def test_a_softmax_of_hls4mls_default_types_is_the_cpps_and_a_warning_gives_the_error(variants: dict[str, Any]) -> None:
    dense = variants["dense"]
    assert dense["equal"]
    assert dense["distinct"] > 20
    (softmax,) = dense["warnings"]
    found = re.search(r"probabilities were up to (\S+) off for numbers within 8 of 0, .*\['softmax'\] = 'exact'", softmax)
    assert found, softmax
    assert 0.05 < float(found[1]) < 0.5
    assert dense["error"] < float(found[1])


@pytest.mark.whole
def test_types_of_single_layers_and_one_reuse_factor_for_all(variants: dict[str, Any]) -> None:
    single, reused = variants["settings"]["single"], variants["settings"]["reused"]
    assert single["equal"]
    assert single["last"]
    assert reused["equal"]
    assert min(single["distinct"], reused["distinct"]) > 20


@pytest.mark.whole
def test_quantised_layers_with_the_tutorials_tables(variants: dict[str, Any]) -> None:
    quantised = variants["quantised"]
    assert quantised["equal"]
    assert quantised["distinct"] > 20
    assert quantised["error"] < 0.3


def test_pruned_layers_and_exact_softmax_and_trace(session: dict[str, Any]) -> None:
    pruned = session["pruned"]
    assert pruned["equal"]
    assert pruned["last"]
    assert pruned["distinct"] > 100
    shapes = {"hidden": [100, 12], "hidden_relu": [100, 12], "logits": [100, 5], "softmax": [100, 5]}
    assert shapes.items() <= pruned["layers"].items()
    assert not [warning for warning in pruned["warnings"] if "probabilities" in warning]
    assert pruned["error"] < 0.02
    assert "multipliers" in pruned["report"] or "adders" in pruned["report"]


def test_convolutions_that_hold_their_normalisation_as_a_stream(session: dict[str, Any]) -> None:
    images = session["images"]
    assert images["equal"]
    assert images["last"]
    assert images["distinct"] > 40
    assert images["warnings"] == []
    (line,) = images["logged"]
    assert line.startswith("the core is rf, not da: io_type is io_stream")
    assert images["error"] < 0.1


def test_a_stream_of_two_shapes_is_refused_by_the_layers_name(session: dict[str, Any]) -> None:
    assert session["two shapes"]["error"].startswith("layer 'sum': it merges the shapes (3, 4, 2) and (1, 1, 2)")


def test_a_model_that_is_split_is_refused(session: dict[str, Any]) -> None:
    assert session["split"]["error"].startswith(
        "to_multi_model_graph() stitches Vitis' IPs, and the backend Hypersonic makes one"
    )
