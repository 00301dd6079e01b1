# SPDX-License-Identifier: Apache-2.0
"""docs/plan.md and its example of a mixed farm, docs/plan-farm.yaml."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.plan.mix.make import MixedPlan, plan_mixed
from hypersonic.plan.mix.read import SEVERAL, known_fields, read_mixed
from hypersonic.plan.read import load_document
from tests.plan.mix.farms import FARMS

DOCS = Path(__file__).resolve().parents[3] / "docs"
EXAMPLE, PAGE = DOCS / "plan-farm.yaml", (DOCS / "plan.md").read_text()


def computed_table(plan: MixedPlan) -> str:
    """The page's table of the example."""
    rows = [
        f"| {name} | {load.events_per_s:,.4g} | {load.event_s:.4g} | {load.unqueued_s:.4g} | "
        + ", ".join(f"{model} {1e3 * seconds:,.3g}" for model, seconds in load.call_s.items())
        + " |"
        for name, load in zip(plan.mixed.workloads, plan.figures.loads, strict=True)
    ]
    head = "| workload | events/s | time per event, s | on an idle farm | mean time of a call, ms |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def test_the_page_shows_what_the_example_gives() -> None:
    assert computed_table(plan_mixed(read_mixed(EXAMPLE, load_document(EXAMPLE)), simulate=False)) in PAGE


def test_the_page_counts_the_farms_that_are_compared() -> None:
    assert f"`tests/plan/mix` compares {len(FARMS)} farms with the simulation" in PAGE


def test_the_page_has_every_field() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for section in (*SEVERAL, "target"):
        for name in known_fields(section):
            assert any(f"{section}." in row and re.search(rf"[`.]{name}`", row) for row in rows), (section, name)
    for name in known_fields("site"):
        assert any(f"`{name}`" in row or f".{name}`" in row for row in rows), name


@pytest.mark.slow
@pytest.mark.whole("plan", "docs/plan-farm.yaml")
def test_the_example_is_simulated_as_it_is_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.json"
    assert cli.main(["plan", "--file", str(EXAMPLE), "--json", str(out)]) == 0
    assert "The target (at most 5 % added to an event of a job, 0.8 of the capacity) is reached." in capsys.readouterr().out
    data = json.loads(out.read_text())
    for name, simulated in data["simulated"].items():
        limit = 0.15 if name.startswith("calibration") else 0.05  # a few turns are simulated
        assert data["workloads"][name]["events_per_s"] == pytest.approx(simulated["events_per_s"], rel=limit), name
        assert data["workloads"][name]["event_s"] == pytest.approx(simulated["event_s"], rel=limit), name
    assert cli.main(["plan", "--file", str(out), "--no-simulation"]) == 0
