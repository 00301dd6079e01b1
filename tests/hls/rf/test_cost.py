# SPDX-License-Identifier: Apache-2.0
"""Costs by rules beside what Yosys made of the same stages (measure_stages.py), memories from files left out of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hls.rf.compare_stages import MEASURED, predicted, table


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


def test_the_docs_show_the_comparison_of_all_stages() -> None:
    page = Path(__file__).parents[3] / "docs" / "rf-fit.md"
    assert "\n".join(table()) in page.read_text()
