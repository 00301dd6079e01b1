# SPDX-License-Identifier: Apache-2.0
"""hls4ml's own test cases with our backend: which are counted, how they end, and a fixed sample of them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.stock.cases import Kind, Result, file_of, keras_of, key_of, read_results, uncounted, words_of
from bench.stock.order import Order, order_in
from bench.stock.run import run_cases
from bench.stock.sample import sample
from bench.stock.table import table

pytestmark = pytest.mark.whole

#: chosen by bench/stock/sample.py
SAMPLE = tuple((Path(__file__).with_name("stock_sample.txt")).read_text().split("\n")[:-1])

RAN = Result("test_a.py::test_x[Vitis]", Kind.EQUAL, "", 16, 1.5, 1.0)


def test_words_of_a_failure_name_no_directory_of_a_machine() -> None:
    failure = ValueError('in user code:\n File "/home/a user/.venv/lib/python3.11/site-packages/qkeras/qrecurrent.py", line 1')
    assert words_of(failure).endswith('File "qkeras/qrecurrent.py", line 1')
    stored = Path(__file__).parents[3] / "bench" / "stock" / "results.jsonl"
    assert [result.case for result in read_results(stored) if "site-packages" in result.words] == []


def test_a_case_for_vivado_and_the_same_for_vitis_are_one() -> None:
    assert key_of("test/pytest/test_a.py::test_x[Vivado-3]") == key_of("test/pytest/test_a.py::test_x[vitis-3]")
    assert key_of("test/pytest/test_a.py::test_x[Vitis-3]") == "test_a.py::test_x[Vitis-3]"


@pytest.mark.parametrize(
    ("nodeid", "values", "why"),
    [
        ("test/pytest/test_a.py::test_x[Vitis]", ["Vitis"], ""),
        ("test/pytest/test_a.py::test_x", [], ""),
        ("test/pytest/test_a.py::test_x[oneAPI]", ["oneAPI"], "of another backend"),
        ("test/pytest/test_a.py::test_x[config0]", ["{'backend': 'Quartus'}"], "of another backend"),
        ("test/pytest/test_extensions.py::test_x[Vivado]", ["Vivado"], "of the Extensions API"),
        ("test/pytest/test_optimization/test_a.py::test_x", [], "of the optimisation API"),
    ],
)
def test_cases_of_other_backends_are_not_counted(nodeid: str, values: list[str], why: str) -> None:
    assert uncounted(nodeid, values) == why


def test_keras_3_is_for_the_files_that_hls4ml_runs_with_it() -> None:
    assert [keras_of(case) for case in ("test_keras_v3_api.py::test_x", "test_keras_api.py::test_x")] == [3, 2]


def test_the_last_result_of_a_case_counts(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert read_results(file) == []
    crashed = Result(RAN.case, Kind.CRASHED, "ValueError: no", 0, 1.0, 1.0)
    file.write_text(crashed.to_line() + RAN.to_line())
    assert read_results(file) == [RAN]


def test_an_order_travels_in_the_environment() -> None:
    order = Order("r.jsonl", "now", 12.5, 60, ("a", "b"), keras=3, rtl=True)
    assert order_in(order.to_environment()) == order


def test_the_table_has_a_row_for_each_file_of_which_a_case_ran_and_the_sum(tmp_path: Path) -> None:
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps({"counted": [RAN.case, "test_b.py::test_y"], "not counted": {}}))
    first, _, _, _, *rows = table([RAN], [listed, tmp_path / "missing.json"]).splitlines()
    assert first == "1 of 2 cases were run."
    cells = [[cell.strip() for cell in row.split("|")[1:5]] for row in rows]
    assert cells == [["a", "1", "1", "1"], ["1 files of which none was run", "1", "0", ""], ["all", "2", "1", "1"]]


def test_a_sample_has_a_case_of_each_file_before_the_second_of_any() -> None:
    names = [f"test_{name}" for name in ("a.py::test_x[0]", "a.py::test_x[1]", "b.py::test_y", "c.py::test_z")]
    names.append("test_keras_v3_api.py::test_w")
    results = [Result(name, Kind.EQUAL, "", 16, 1.5, 1.0) for name in names]
    slow, crashed = (
        replace(results[0], case="test_d.py::test_x", cpu_seconds=6),
        Result("test_e.py::test_x", Kind.CRASHED, "", 0, 1, 1),
    )
    chosen = sample([*results, slow, crashed])
    assert [file_of(case) for case in chosen] == ["test_a.py", "test_b.py", "test_c.py", "test_a.py"]
    assert sample(results, size=2) == chosen[:2]


@pytest.mark.slow
def test_a_fixed_sample_of_the_cases_is_equal_to_hls4mls_cpp(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    run_cases(Order(str(results), "", time.time() + 1800, 120, SAMPLE, keras=2, rtl=False))
    assert len(SAMPLE) == len(set(SAMPLE)) == 60
    ended = {result.case: (result.kind, result.words) for result in read_results(results)}
    assert ended == dict.fromkeys(SAMPLE, (Kind.EQUAL, "")), results.with_suffix(".log").read_text()[-3000:]
