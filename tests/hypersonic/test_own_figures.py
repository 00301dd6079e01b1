# SPDX-License-Identifier: Apache-2.0
"""The table of figures for a user's rows: rates are of rows, because a request is only how they were sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.events.outcome import Judged, Merit, Outcome
from hypersonic.events.picture import print_table
from hypersonic.events.sending import Answers
from hypersonic.firmware.estimate.rates import CardRate, Limit


def test_the_rates_of_a_users_rows_are_of_rows_and_those_of_generated_events_are_of_events(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = tuple((np.zeros((size, 1)),) for size in (3, 2))
    load = Answers(answers, np.array([1_000_000, 2_000_000]), 1_000_000_000)
    rate = CardRate("u250", (Limit("kernel", 1000.0, "100 clocks"),))
    judged = Judged((np.zeros((5, 1)),), (np.zeros((5, 1)),), (), ())
    outcome = Outcome("mine", load, 4, 200, 5, 3, Merit("none", None, None), (), (), rate, judged)
    assert (outcome.own_rows, outcome.mean_rows) == (5, 2.5)
    print_table(outcome, Path("picture.png"))
    own = capsys.readouterr().out
    for words in (
        "mine: 5 rows in 2 requests from 4 clients",
        "rows/s",
        "a prediction for 2.5 rows a request: the kernel limits it",
    ):
        assert words in own
    lines = {cells[0].strip(): cells[1:] for line in own.splitlines() if len(cells := line.strip("│").split("│")) == 3}
    assert lines["rows/s"][0].strip() == "5.0"
    assert [lines[name][0].strip() for name in ("rows/s on a u250", "kernel")] == ["2,500", "2,500"]
    assert [cell.strip() for cell in lines["clocks per request"]] == ["100", "40.000 per row, counted by the kernel"]
    assert "event" not in own
    print_table(Outcome("facile", load, 4, 200, 5, 3, Merit("none", None, None), (), (), rate), Path("picture.png"))
    generated = capsys.readouterr().out
    assert "facile: 2 events from 4 clients" in generated
    assert "events/s on a u250" in generated
    assert "row" not in generated.replace("per row", "")
