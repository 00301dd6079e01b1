# SPDX-License-Identifier: Apache-2.0
"""docs/plan.md and docs/farm.md show what the programs print, and the planner loads nothing before it is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.farm_plan import HLT, LOADS, OFFLINE, SHOWN, capacity_table, cards_table
from hypersonic.commands.plan import _OPTIONS, server_batching
from hypersonic.plan.inputs import Site, Target, Workload, field_names
from hypersonic.plan.make import make_plan
from hypersonic.plan.published import check_table
from hypersonic.plan.read import Given, make_question, read_file
from hypersonic.plan.report import answer_lines

DOCS = Path(__file__).resolve().parents[2] / "docs"
PLAN, FARM = ((DOCS / f"{page}.md").read_text() for page in ("plan", "farm"))


def test_the_check_table_is_that_of_the_command() -> None:
    assert PLAN.endswith(check_table())


def test_the_example_is_what_the_command_prints() -> None:
    question = make_question(Given({"model.name": "facile", "workload.jobs": 3300}))
    lines = list(answer_lines(make_plan(question, simulate=False)))[:4]
    (shown,) = re.findall(r"^```text\n(.*?)^```", PLAN, flags=re.DOTALL | re.MULTILINE)
    assert shown.split() == " ".join(lines).split()


def test_the_yaml_of_the_page_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PLAN, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "farm.yaml").write_text(text)
    assert make_question(read_file(tmp_path / "farm.yaml")).target.p99_ms == 20


def test_the_page_has_every_field_and_option() -> None:
    for section in ("workload", "model", "site", "target"):
        for name in field_names(section):
            assert re.search(rf"^\|.*`(?:{section}\.)?{name}`", PLAN, re.MULTILINE), name
    for options in _OPTIONS.values():
        for option in options:
            assert f"`{option}`" in PLAN, option


def test_the_defaults_in_the_help_are_those_of_the_nouns() -> None:
    defaults = {"workload": Workload(), "site": Site(), "target": Target()}
    for section, values in defaults.items():
        for option, (name, _, text) in _OPTIONS[section].items():
            if match := re.search(r"\(default: ([\d.]+)\)", text):
                assert getattr(values, name.partition(".")[2]) == float(match[1]), option


@pytest.mark.parametrize("table", [capacity_table(), cards_table()])
def test_the_farms_tables_are_those_of_the_law(table: str) -> None:
    assert table in FARM


def test_a_simulated_row_of_the_page_is_what_the_simulation_gives() -> None:
    """Within 5 %: the page's other rows take a minute."""
    case = SHOWN[-1]
    row = FARM[FARM.rindex(f"| {case} |") :].partition("\n")[0]
    shown = [tuple(map(float, re.findall(r"[\d.]+", cell))) for cell in row.split("|")[2:-1]]
    points = case.simulate((LOADS[0], LOADS[3]), server_batching(case.question()))
    assert len(shown) == len(LOADS)
    for point, cell in zip(points, (shown[0], shown[3]), strict=True):
        assert (point.event_s, 1e3 * point.p50_s, 1e3 * point.p99_s) == pytest.approx(cell, rel=0.05)


def test_the_page_of_farms_says_what_its_cases_are() -> None:
    assert HLT.own_s == pytest.approx(0.600, abs=0.001)
    assert OFFLINE.rows * OFFLINE.calls == pytest.approx(55_000, rel=0.01)
    assert "Nothing here was measured on a card" in FARM
    for case in SHOWN:
        assert FARM.count(f"| {case} |") == 2, case  # by the number of cards, and simulated
    sizes = {
        rows: 16_000 * case.question().model.input_bytes / 1e6 for case in SHOWN if case.farm == "HLT" for rows in [case.rows]
    }
    assert {f"{size:.3f} MB" for size in sizes.values()} == {"1.152 MB", "0.576 MB", "0.464 MB"}
    assert all(f"{size:.3f} MB" in FARM for size in sizes.values())
