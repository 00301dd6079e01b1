# SPDX-License-Identifier: Apache-2.0
"""hls4ml's own test cases with our backend: which are counted, how they end, and a fixed sample of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from bench.stock.cases import Kind, Result, keras_of, key_of, read_results, uncounted
from bench.stock.order import Order, order_in
from bench.stock.run import run_cases
from bench.stock.table import table

#: the first cases for Keras 2 in the fixed order that ask for answers and take less than 10 seconds of processor time
SAMPLE = (
    "test_sepconv1d.py::test_sepconv1d[4-6-Vitis-io_stream-resource-False-2-1-valid-channels_last]",
    "test_activations.py::test_activations[elu-shape1-io_stream-Vitis]",
    "test_depthconv2d.py::test_depthconv2d[3-4-Vitis-io_stream-latency-False-kernels0-strides1-valid-channels_last]",
    "test_merge.py::test_concatenate1d[Vitis-io_parallel]",
    "test_pooling.py::test_pool1d[io_parallel-model_type-avg-padding-valid-Vitis]",
    "test_sepconv1d.py::test_sepconv1d[4-1-Vitis-io_stream-latency-False-3-2-same-channels_last]",
)

RAN = Result("test_a.py::test_x[Vitis]", Kind.EQUAL, "", 16, 1.5, 1.0)


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


@pytest.mark.slow
def test_a_fixed_sample_of_the_cases_is_equal_to_hls4mls_cpp(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    run_cases(Order(str(results), "", time.time() + 850, 120, SAMPLE, keras=2, rtl=False))
    ended = {result.case: (result.kind, result.words) for result in read_results(results)}
    assert ended == dict.fromkeys(SAMPLE, (Kind.EQUAL, "")), results.with_suffix(".log").read_text()[-3000:]
