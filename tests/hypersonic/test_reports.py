# SPDX-License-Identifier: Apache-2.0
"""The files of `hypersonic report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.reporting import engines
from hypersonic.reporting.engines import ReportError, report_models
from hypersonic.reporting.layers import overflow_lines
from hypersonic.reporting.line import Answers, ModelReport
from hypersonic.reporting.picture import draw


def test_answers_that_are_all_off_by_the_same_are_drawn(tmp_path: Path) -> None:
    """In floats the differences are a few, next to each other: no 101 bins fit between them."""
    trained = np.linspace(0, 1, 50)[:, None]
    numbers = {"float": trained, "quantised": trained, "csim": trained + 0.1}
    merit: dict[str, float | None] = dict.fromkeys(numbers, 0.5)
    draw(Answers(ModelReport("jets", 10, "width", 7, merit, 0.0, 1.0, None), numbers), tmp_path / "jets.png")
    assert (tmp_path / "jets.png").stat().st_size > 5_000


def test_a_run_that_fails_keeps_the_models_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(model: str, *_: Any) -> Answers:
        if model == "emtrk":
            raise ReportError("emtrk: row 3 differs")
        merit = dict.fromkeys(("float", "quantised", "csim"), 0.5)
        numbers = {name: np.linspace(0, 1, 7)[:, None] for name in merit}
        return Answers(ModelReport(model, 10, "width", 7, dict.fromkeys(merit, 0.5), 0.0, 1.0, None), numbers)

    monkeypatch.setattr(engines, "report", report)
    with pytest.raises(ReportError, match="row 3"):
        report_models(["jets", "facile", "emtrk"], everything=False, directory=tmp_path, progress=lambda _: None)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["facile.png", "figures.json", "jets.png", "table.md"]
    assert [line["model"] for line in json.loads((tmp_path / "figures.json").read_text())] == ["jets", "facile"]
    answers, speed = (tmp_path / "table.md").read_text().split("\n\n")
    assert len(answers.splitlines()) == len(speed.splitlines()) == 4


def test_the_variables_that_do_not_hold_their_numbers_are_a_table() -> None:
    counted = {
        "layer": "dense", "variable": "accum", "type": "ap_fixed<8,2>", "rows": 1000, "wrong_rows": 7, "saturated_rows": 0,
        "least": -3.5, "greatest": 2.25, "needed": "ap_fixed<9,3>",
    }  # fmt: skip
    relu = {**counted, "layer": "relu", "variable": "result", "wrong_rows": 0, "saturated_rows": 12, "needed": "ap_fixed<8,2>"}
    lines = overflow_lines({"gate": {"source": "rows.npy"}, "overflows": [counted, relu]})
    assert lines == [
        "overflows:",
        "  layer  variable  type           rows that wrap  rows that saturate  numbers       type to write",
        "  dense  accum     ap_fixed<8,2>  7 of 1,000      0                   -3.5 to 2.25  ap_fixed<9,3>",
        "  relu   result    ap_fixed<8,2>  0 of 1,000      12                  -3.5 to 2.25",
    ]
    assert overflow_lines({"gate": {"source": "rows.npy"}, "overflows": []}) == ["overflows: no number wraps or saturates"]
    assert overflow_lines({"gate": {"source": "random"}, "overflows": []}) == []
    assert overflow_lines({"gate": {"source": "rows.npy"}, "overflows": None}) == []  # not counted: a note says why
