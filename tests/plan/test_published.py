# SPDX-License-Identifier: Apache-2.0
"""The law reproduces the published figures; the values by hand are those of the talks' own arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hypersonic.plan import published
from hypersonic.plan.published import FIGURE_LIMIT, POINT_LIMIT, SETS, check_passes, check_table, figures

#: computed by hand from the inputs of the talks
BY_HAND = {
    "HLT jobs per T4": 300.0,
    "HLT jobs per AWS F1": 1500.0,
    "HLT jobs per U250": 3225.0,
    "time per event below saturation": 0.9,
    "network of 8000 events/s": 61.44,
    "T4s for 8000 events/s": 16.0,
    "saturation, small batch": 178.24,
    "saturation, big batch": 270.508,
    "jobs per GPU": 67.627,
    "jobs that fill the switch": 609.756,
    "transfer of an event": 1.95,
    "travel, big batch": 0.3744,
    "travel, small batch": 2.7495,
    "GPU time of an event": 2.75,
    "ML module": 12.0744,
    "ML module, speed-up": 18.333,
    "event, speed-up": 2.7049,
    "rate of 1000 jobs, dynamic batching": 10_000.0,
}


def test_every_figure_is_within_seven_per_cent_of_the_published_one() -> None:
    assert FIGURE_LIMIT == 0.07
    assert {figure.name: figure.computed for figure in figures()} == pytest.approx(BY_HAND, rel=1e-4)
    assert [figure.name for figure in figures() if abs(figure.computed - figure.published) > 0.07 * figure.published] == []


def test_nusonics_points_from_80_jobs_are_within_ten_per_cent() -> None:
    assert POINT_LIMIT == 0.10
    four = SETS[0]
    held = {point.jobs: (four.event_s(point.jobs), point.event_s) for point in four.points if four.is_held(point)}
    assert list(held) == [80, 189, 301, 486]
    for law, measured in held.values():
        assert abs(law - measured) <= 0.10 * measured
    assert [round(law, 1) for law, _ in held.values()] == [111.4, 118.1, 188.1, 303.8]


def test_only_the_set_that_the_check_names_is_held() -> None:
    assert [each.name for each in SETS if each.held] == ["4 GPUs, no dynamic batching, small batch"]
    assert sum(len(each.points) for each in SETS) == 32


def test_the_check_fails_when_a_figure_or_a_point_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_passes()
    monkeypatch.setattr(published, "SETS", (replace(SETS[0], service_s=3.0), *SETS[1:]))
    assert not check_passes()
    assert "above it" in check_table()
    monkeypatch.undo()
    monkeypatch.setattr(published, "_HLT_S", 0.700)
    assert not check_passes()
    assert "**above 7%**" in check_table()


def test_the_table_has_a_line_for_every_figure_and_point() -> None:
    lines = [line for line in check_table().splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + len(figures()) + 32
    (line,) = [line for line in lines if line.startswith("| HLT jobs per U250")]
    assert line.endswith("| 86 M inferences/s; 16,000 an event; 0.600 s | c/S * t_ideal | 3,300 jobs | 3,225 jobs | -2.3% |")
