# SPDX-License-Identifier: Apache-2.0
"""A zoo model with an rf core, one command for each step: the kernel, the server, the report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersonic.events.infer import merit
from hypersonic.events.outcome import Merit, Outcome
from hypersonic.events.picture import show
from hypersonic.events.sending import Answers
from hypersonic.hls.zoo.resnet50.task import TASK as RESNET50
from hypersonic.hls.zoo.task import task_of
from hypersonic.reporting import engines as report
from tests.end_to_end.command_line import hypersonic, places, refused


@pytest.mark.whole("firmware", "hls", "hypersonic", "requirements.lock", "sim")
def test_a_network_with_shared_multipliers_is_built_served_and_checked_by_one_command(tmp_path: Path) -> None:
    where = (*places(tmp_path), "--output", tmp_path / "result")
    done = hypersonic("run", "jets", "--target", "hw_emu", "--events", "4", "--event-rows", "20", "--clients", "2", *where)
    assert done.returncode == 0, done.stderr
    assert "mean AUC of five classes" in done.stdout
    figures = json.loads((tmp_path / "result" / "figures.json").read_text())
    assert figures["integers_equal_to_csim"] == 4 * 20 * 5
    # a row every 16 clocks, and the way through memory and core
    assert 20 * 16 < figures["clocks_per_event"] < 20 * 16 + 400
    manifest = json.loads((tmp_path / "jets" / "1" / "manifest.json").read_text())
    assert (manifest["core"], manifest["ii"]) == ("rf", 16)


def test_events_that_a_generator_cannot_make_are_refused() -> None:
    done = hypersonic("infer", "facile", "--event-rows", "7", "--events", "3")
    refused(done, "--event-rows is 7: for 3 of them", "expected 21; leave it out for events of 16000 rows")


@pytest.mark.whole("firmware", "hls", "hypersonic", "requirements.lock", "sim")
def test_a_report_has_a_line_and_a_picture_a_model(tmp_path: Path) -> None:
    done = hypersonic("report", "jets_logits", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == (tmp_path / "table.md").read_text().rstrip()
    (line,) = json.loads((tmp_path / "figures.json").read_text())
    assert (line["model"], line["equal"], line["difference"]) == ("jets_logits", 6000 * 5, 0.0)
    assert abs(line["clocks"] - line["predicted"]) <= 0.02 * line["predicted"]
    assert line["merit"]["csim"] == line["merit"]["quantised"] > 0.85
    assert line["rate"]["events_per_s"] == min(limit["events_per_s"] for limit in line["rate"]["limits"])
    assert f"| {line['rate']['events_per_s']:,.0f} | {line['rate']['limited_by']} |" in done.stdout
    assert (tmp_path / "jets_logits.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_without_a_figure_or_a_core_has_a_line_of_csim_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    untrained = replace(task_of("facile"), figure="none", measure=None, float_predict=None, rows=50, rtl_rows=0)
    monkeypatch.setattr(report, "task_of", lambda _name: untrained)
    text = report.report_models(["facile"], everything=False, directory=tmp_path, progress=lambda _line: None)
    answers, speed = ([line.strip("| ").split(" | ") for line in part.splitlines()] for part in text.split("\n\n"))
    (head, _, row), (speed_head, _, speed_row) = answers, speed
    assert row[:7] == ["facile", "1,221", "none, 50 rows", "-", "-", "-", "no RTL"]
    assert (speed_row[0], speed_row[1:8], speed_row[8][-4:]) == ("facile", ["-"] * 7, " / -")
    assert (len(row), len(speed_row)) == (len(head), len(speed_head))
    (line,) = json.loads((tmp_path / "figures.json").read_text())
    assert (line["core"], set(line["merit"].values()), line["csim_us"] > 0) == (None, {None}, True)
    assert (tmp_path / "facile.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_not_trained_is_served_without_a_figure_of_merit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    logits = np.zeros((2, 1000))
    figure = merit(RESNET50, RESNET50.sample(2, 1), (logits,))
    assert figure == Merit("none: nothing was trained", None, None)
    load = Answers(((logits[:1],), (logits[1:],)), np.array([1, 2]), 3)
    show(Outcome("resnet50", load, 1, 0, 2000, 1, figure, (), ()), tmp_path)
    assert re.search(r"figure of merit\W+ - \W+none: nothing was trained", capsys.readouterr().out)
    assert json.loads((tmp_path / "figures.json").read_text())["merit"] is None


def test_a_report_of_nothing_or_of_an_unknown_model_says_what_there_is(tmp_path: Path) -> None:
    refused(hypersonic("report", "--output", tmp_path), "no model is named", "jets_logits", "--all")
    refused(hypersonic("report", "jets", "nobody", "--output", tmp_path), "no generator for model 'nobody'", "deepcalo")
    assert not list(tmp_path.iterdir())
