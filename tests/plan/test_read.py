# SPDX-License-Identifier: Apache-2.0
"""Files with a plan's inputs: what they give, in which order options replace it, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypersonic.plan.answer import as_data
from hypersonic.plan.errors import PlanError
from hypersonic.plan.inputs import RULES, Basis
from hypersonic.plan.make import make_plan
from hypersonic.plan.models import ZOO
from hypersonic.plan.read import Given, make_question, of_options, read_file
from tests.plan.metrics import page
from tests.plan.questions import hlt

FARM = """\
workload: {jobs: 600, cpu_s: 330, share: 0.67, rows: 235, calls: 235}
model: emtrk
site: {platform: u55c, server_gbps: 100, rtt_ms: 11.7}
target: {added_percent: 5}
"""
SERVICE = {"bounds_s": [0.1, None], "counts": [1, 2], "mean_s": 0.1, "rows": 1, "requests": 1, "transfer_s": 0}


def written(tmp_path: Path, text: str, name: str = "farm.yaml") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_file_replaces_defaults_and_options_replace_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, FARM)
    options = of_options({"site.rtt_ms": ("--rtt-ms", 1.0)})
    question = make_question(read_file(file).under(options))
    assert (question.workload.calls, question.site.platform, question.site.rtt_ms) == (235, "u55c", 1.0)
    assert question.target.added_percent == 5
    assert question.target.headroom == 0.8
    assert question.model == ZOO["emtrk"].cost
    marks = {name: str(question.mark(name)) for name in ("workload.jobs", "site.rtt_ms", "target.headroom", "model.ii")}
    assert marks == {
        "workload.jobs": f"read from a file ({file})",
        "site.rtt_ms": "assumed (--rtt-ms)",
        "target.headroom": "assumed (default)",
        "model.ii": "read from a file (table of the zoo's models)",
    }


def test_a_clock_is_assumed_also_if_a_file_has_it(tmp_path: Path) -> None:
    question = make_question(read_file(written(tmp_path, FARM.replace("rtt_ms: 11.7", "kernel_mhz: 250"))))
    assert question.site.kernel_mhz == 250
    assert question.mark("site.kernel_mhz").basis == Basis.ASSUMED
    assert question.mark("site.kernel_mhz").source.endswith("farm.yaml")


def test_json_is_read_without_yaml(tmp_path: Path) -> None:
    inputs = {"workload": {"jobs": 10}, "model": {"name": "facile"}, "site": {"server_gbps": 25}}
    question = make_question(read_file(written(tmp_path, json.dumps(inputs), "farm.json")))
    assert (question.workload.jobs, question.workload.rows) == (10, 16_000)


@pytest.mark.parametrize("measured", [False, True])
def test_a_plan_as_json_is_the_same_question_with_the_same_marks(tmp_path: Path, measured: bool) -> None:
    options: dict[str, tuple[str, Any]] = {
        "model.name": ("MODEL", "facile"),
        "workload.jobs": ("--jobs", 900),
        "site.rtt_ms": ("--rtt-ms", 2.0),
    }
    metrics = tmp_path / "metrics"
    metrics.write_text(page(mean_us=160.0))
    if measured:
        options["model.metrics"] = ("--metrics", str(metrics))
    question = make_question(of_options(options))
    plan = json.dumps(as_data(make_plan(question, simulate=False)), allow_nan=False)
    metrics.unlink()  # the server has ended
    again = make_question(read_file(written(tmp_path, plan, "plan.json")))
    assert replace(again, marks={}) == replace(question, marks={})
    for section, rules in RULES.items():
        for name in rules:
            assert again.mark(f"{section}.{name}") == question.mark(f"{section}.{name}"), name
    assert again.mark("model.metrics") == question.mark("model.metrics")


def test_measured_times_of_an_earlier_plan_are_not_those_of_another_model(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    metrics.write_text(page(mean_us=160.0))
    options: dict[str, tuple[str, Any]] = {
        "model.name": ("MODEL", "facile"),
        "workload.jobs": ("--jobs", 9),
        "model.metrics": ("--metrics", str(metrics)),
    }
    plan = json.dumps(as_data(make_plan(make_question(of_options(options)), simulate=False)))
    given = read_file(written(tmp_path, plan, "plan.json"))
    with pytest.raises(PlanError, match="has the histograms of facile, expected that of model 'jets'"):
        make_question(given.under(of_options({"model.name": ("MODEL", "jets")})))


@pytest.mark.parametrize(
    ("part", "value", "error"),
    [
        ("marks", None, "has no marks"),
        ("marks", {"workload.jobs": 3}, f"marks.workload.jobs is 3, expected a basis ({', '.join(Basis)})"),
        ("marks", {"workload.jobs": {"basis": "guessed", "source": "x"}}, "marks.workload.jobs is {'basis': 'guessed'"),
        ("measured", {"bounds_s": [1]}, "measured is {'bounds_s': [1]}, expected bounds_s and counts of equal length"),
        ("measured", 3, "measured is 3, expected bounds_s"),
        ("measured", {**SERVICE, "counts": [2, 1]}, "expected bounds_s and counts of equal length, ascending"),
        ("measured", {**SERVICE, "mean_s": 0}, "expected bounds_s and counts of equal length, ascending"),
    ],
)
def test_a_plan_that_was_edited_wrongly_is_named(tmp_path: Path, part: str, value: object, error: str) -> None:
    plan = {**as_data(make_plan(hlt(), simulate=False)), part: value}
    with pytest.raises(PlanError) as raised:
        read_file(written(tmp_path, json.dumps(plan), "plan.json"))
    assert error in str(raised.value)


def test_a_model_of_ones_own_is_given_by_its_bytes(tmp_path: Path) -> None:
    text = "{workload: {jobs: 9}, model: {name: mine, input_bytes: 100, output_bytes: 8, ii: 4}, site: {server_gbps: 25}}"
    question = make_question(read_file(written(tmp_path, text)))
    assert (question.model.name, question.model.row_bytes, question.model.ii) == ("mine", (100, 8), 4)


def test_measured_times_give_rows_too(tmp_path: Path) -> None:
    metrics = written(tmp_path, page(rows=8000), "metrics.txt")
    given = Given({"model.name": "facile", "model.metrics": str(metrics), "workload.jobs": 10})
    question = make_question(given)
    assert question.model.measured is not None
    assert question.workload.rows == 8000
    assert str(question.mark("workload.rows")) == f"measured ({metrics})"
    assert question.mark("model.metrics").basis == Basis.MEASURED
    assert make_question(given.under(Given({"workload.rows": 16_000}))).workload.rows == 16_000


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (FARM.replace("rtt_ms", "rt_ms"), "'rt_ms' is not a field of site, expected one of platform, cards, "),
        (FARM.replace("rtt_ms", "rt_ms"), "; did you mean rtt_ms?"),
        (
            FARM.replace("workload:", "work_load:"),
            "'work_load' is not a section, expected one of workload, model, site, target; did",
        ),
        (
            FARM.replace("server_gbps: 100, ", ""),
            "site.server_gbps is missing, expected the Gb/s of a server's link: a plan needs",
        ),
        (FARM.replace("server_gbps: 100", "server_gbps: 0"), "site.server_gbps is 0, expected the Gb/s"),
        (FARM.replace("server_gbps: 100", "server_gbps:"), "site.server_gbps is None, expected the Gb/s"),
        (FARM.replace("0.67", "1.67"), "workload.share is 1.67, expected a number from 0 to 1"),
        (FARM.replace("600", "many"), "workload.jobs is 'many', expected a whole number from 0"),
        (FARM.replace("u55c", "55"), "site.platform is 55, expected a text"),
        ("- 1\n", "is a list, expected the sections workload, model, site, target"),
        ("workload: 3\n", "workload is 3, expected its fields: jobs, events_per_s, cpu_s, share, rows, calls"),
        ("a: [", "is not YAML: "),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_field(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(PlanError) as raised:
        read_file(written(tmp_path, text))
    assert error in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "farm.yaml"))


def test_a_plan_without_a_model_asks_for_one() -> None:
    with pytest.raises(PlanError, match=r"model\.name is missing, expected a zoo model such as facile"):
        make_question(Given({"workload.jobs": 10}))
