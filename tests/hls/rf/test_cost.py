# SPDX-License-Identifier: Apache-2.0
"""Costs by rules beside what Yosys made of the same stages (measure_stages.py), memories from files left out of both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf import cost
from hypersonic.hls.rf.registry import stage_cost
from hypersonic.hls.rf.stage import Stage, Stream, Timing
from hypersonic.hls.rf.stages import softmax

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

MEASURED = [json.loads(line) for line in (Path(__file__).parent / "stages.jsonl").read_text().splitlines()]


def predicted(line: Mapping[str, Any]) -> Amounts:
    """Of a stage without files."""
    inputs, outputs = [
        tuple(Stream(f"{side}{at}", fixed_point(width, 2), lanes, beats) for at, (lanes, width, beats) in enumerate(line[side]))
        for side in ("inputs", "outputs")
    ]
    return stage_cost(Stage("s", line["module"], "s", line["parameters"], inputs, outputs, Timing((), 0, 0, 0)))


@pytest.fixture(autouse=True)
def _no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """rf_table and rf_softmax know their memories by parameters."""
    for module in (cost, softmax):
        monkeypatch.setattr(module, "rom_cost", lambda _words, _width: NOTHING)


def test_multipliers_are_counted_as_yosys_maps_them() -> None:
    for line in MEASURED:
        if line["module"] in ("rf_mac", "rf_depthwise"):
            assert predicted(line).dsp == line["taken"]["dsp"], line["parameters"]


@pytest.mark.parametrize("kind", ["lut", "ff"])
def test_a_stage_is_near_what_yosys_makes_of_it(kind: str) -> None:
    for line in MEASURED:
        wanted = line["taken"][kind]
        assert getattr(predicted(line), kind) == pytest.approx(wanted, rel=0.25, abs=40), (line["module"], line["parameters"])


@pytest.mark.parametrize("kind", ["lut", "ff"])
def test_all_stages_together_are_within_a_twentieth(kind: str) -> None:
    whole = sum(line["taken"][kind] for line in MEASURED)
    assert sum(getattr(predicted(line), kind) for line in MEASURED) == pytest.approx(whole, rel=0.05)
