# SPDX-License-Identifier: Apache-2.0
"""docs/first-card.md has the steps, what each must show, and each deviation, as the command prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.commands import first_day
from hypersonic.first_day.steps import NAMES, STEPS, Step

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "first-card.md").read_text()


@pytest.mark.parametrize("step", STEPS, ids=NAMES)
def test_the_page_has_a_step_with_all_its_deviations(step: Step) -> None:
    section = PAGE.partition(f"\n### {STEPS.index(step) + 1}. {step.name}\n")[2].partition("\n##")[0]
    assert f"Runs {step.runs}. Must show: {step.shows}." in section
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {each.got} | {each.means} | {each.look} |" for each in step.deviations]


def test_the_command_offers_the_steps_in_their_order() -> None:
    assert first_day._STEPS == NAMES


def test_every_step_has_a_deviation_for_any_error() -> None:
    assert all(step.deviations[-1].error is Exception for step in STEPS)
