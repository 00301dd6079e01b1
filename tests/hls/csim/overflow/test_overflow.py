# SPDX-License-Identifier: Apache-2.0
"""Every planted wrap is found under its layer and variable, and nothing else is reported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.overflow.figures import NumberType, Overflows, VariableCounts
from hypersonic.hls.csim.overflow.patch import UnknownTypesError, patch
from hypersonic.hls.csim.overflow.run import answers_and_overflows, find_overflows
from hypersonic.hls.project import HlsProject
from tests.hls.csim.overflow.overflow_models import ROWS

pytestmark = pytest.mark.whole

HERE = Path(__file__).resolve().parent

#: hls4ml's folder, without importing it
HLS4ML = Path(getattr(find_spec("hls4ml"), "origin", "")).parent

#: (layer, variable) -> the type to write, of each variable that wraps
WRONG = {
    ("dense_accum", "accum"): "ap_fixed<15,6>",
    ("dense_result", "result"): "ap_fixed<15,6>",
    ("dense_weight", "weight"): "ap_fixed<13,3>",
    ("conv_accum", "accum"): "ap_fixed<15,5>",
    ("relu_result", "result"): "ap_ufixed<11,5>",
    ("norm_result", "result"): "ap_fixed<14,5>",
    ("add_result", "result"): "ap_fixed<13,4>",
    ("pool_accum", "accum"): "ap_fixed<17,4>",
    ("global_accum", "accum"): "ap_fixed<17,4>",
    ("softmax_sum", "accum"): "ap_ufixed<21,2>",
    ("softmax_table", "exp_table_t"): "ap_ufixed<19,1>",
    ("multiply_result", "result"): "ap_fixed<21,5>",
    ("dot_accum", "accum"): "ap_fixed<20,5>",
    ("einsum_accum", "accum"): "ap_fixed<19,4>",
    ("depthwise_accum", "accum"): "ap_fixed<16,4>",
    ("tanh_table", "table_t"): "ap_fixed<17,1>",
    ("elu_result", "result"): "ap_fixed<14,4>",
    ("bidirectional_accum", "accum"): "ap_fixed<16,4>",
    ("lstm_accum", "accum"): "ap_fixed<16,4>",
    ("gru_accum", "accum"): "ap_fixed<16,4>",
}

#: constants are wrong in every row, the others in half of the rows: a sum of exponentials where the logits are small
CONSTANTS = {"dense_weight", "softmax_table"}
SMALL = "softmax_sum"

Planted = tuple[HlsProject, NDArray[np.int64], str]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The project, its raw rows, and the text of `hypersonic.hls.overflows` for the ModelGraph."""
    directory = tmp_path_factory.mktemp("overflow")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[3]), "TF_USE_LEGACY_KERAS": "1"}
    argv = [sys.executable, str(HERE / "overflow_models.py"), str(directory)]
    done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    project = HlsProject.load(directory / "planted")
    with np.load(directory / "rows.npz") as file:
        parts = [file[key].reshape(ROWS, -1) for key in file.files]
    raw = [np.ldexp(part, spec.fixed.fraction) for part, spec in zip(parts, project.inputs.tensors, strict=True)]
    return project, np.concatenate(raw, axis=1).astype(np.int64), (directory / "graph.txt").read_text()


@pytest.fixture(scope="module")
def found(planted: Planted) -> tuple[NDArray[np.int64], Overflows]:
    project, x, _ = planted
    return answers_and_overflows(project, x)


def test_each_planted_wrap_is_found_in_its_layer_and_variable_with_the_type_to_write(
    found: tuple[NDArray[np.int64], Overflows],
) -> None:
    wrong = {(each.layer, each.variable): str(each.needed) for each in found[1].wrong}
    assert wrong == WRONG
    assert {(each.layer, each.variable) for each in found[1].too_narrow} == set(WRONG)


def test_the_share_of_rows_is_that_of_the_rows_with_a_wrong_number(found: tuple[NDArray[np.int64], Overflows]) -> None:
    rows = {each.layer: each.wrong_rows for each in found[1].wrong}
    assert rows == {layer: ROWS if layer in CONSTANTS else ROWS // 2 for layer, _ in WRONG}


def test_answers_are_csims_integers(planted: Planted, found: tuple[NDArray[np.int64], Overflows]) -> None:
    project, x, _ = planted
    csim = Csim(compile_csim(project, optimisation="-O0"), project)
    np.testing.assert_array_equal(found[0], csim.predict_raw(x))
    assert len(np.unique(found[0])) > ROWS


def of(overflows: Overflows, layer: str, variable: str) -> VariableCounts:
    (counts,) = [each for each in overflows.variables if (each.layer, each.variable) == (layer, variable)]
    return counts


def test_a_wrap_that_a_later_one_cancels_is_counted_and_is_not_wrong(found: tuple[NDArray[np.int64], Overflows]) -> None:
    counts = of(found[1], "dense_cancels", "accum")
    assert counts.wrapped >= ROWS // 2
    assert (counts.wrong, counts.wrong_rows) == (0, 0)
    assert counts.greatest > 8  # which the sums on the way needed, and ap_fixed<18,4> does not hold
    assert counts.needed == counts.type


def test_saturation_is_counted_apart_from_wraps(found: tuple[NDArray[np.int64], Overflows]) -> None:
    (counts,) = [each for each in found[1].saturated if not each.constant]
    assert (counts.layer, counts.variable) == ("dense_saturates", "result")
    assert (counts.saturated, counts.saturated_rows, counts.wrapped) == (ROWS, ROWS // 2, 0)
    assert 12 < counts.greatest < 24


def test_the_needed_range_is_that_of_unwrapped_arithmetic(planted: Planted, found: tuple[NDArray[np.int64], Overflows]) -> None:
    project, x, _ = planted
    sums = 3 * np.ldexp(x[: ROWS // 2, :4], -project.inputs.tensors[0].fixed.fraction).sum(axis=1)
    counts = of(found[1], "dense_accum", "accum")
    assert (counts.low, counts.high) == (sums.min(), sums.max())
    assert of(found[1], "dense_accum", "result").greatest == sums.max()


def test_constants_that_become_zero_are_counted(found: tuple[NDArray[np.int64], Overflows]) -> None:
    table = of(found[1], "softmax_sum", "exp_table_t")
    assert table.constant
    assert 0 < table.zeroed < table.given == 1024


def test_rows_that_fit_have_no_wrong_number_but_those_of_constants(planted: Planted) -> None:
    project, x, _ = planted
    small = find_overflows(project, x[ROWS // 2 :])
    assert {each.layer for each in small.wrong} == {*CONSTANTS, SMALL}
    assert all(each.wrapped == 0 for each in small.variables if not each.constant and each.layer != SMALL)


def test_a_model_graph_gives_the_same_table(planted: Planted, found: tuple[NDArray[np.int64], Overflows]) -> None:
    assert planted[2] == "\n".join(found[1].lines())


def test_a_fault_names_layer_variable_share_range_and_type(found: tuple[NDArray[np.int64], Overflows]) -> None:
    (fault,) = [fault for fault in found[1].faults() if "dense_weight" in fault]
    assert fault == (
        "layer 'dense_weight', weight: ap_fixed<12,2> wraps in 100 % of 24 rows, where it needs 2.5 to 2.5; "
        "write ap_fixed<13,3>"
    )


@pytest.mark.parametrize(
    ("given", "low", "high", "wanted"),
    [
        (NumberType(16, 6, True, "AP_TRN", "AP_WRAP"), -32.0, 31.9, "ap_fixed<16,6>"),
        (NumberType(16, 6, True, "AP_TRN", "AP_WRAP"), -33.0, 0.0, "ap_fixed<17,7>"),
        (NumberType(16, 6, True, "AP_TRN", "AP_WRAP"), 0.0, 32.0, "ap_fixed<17,7>"),
        (NumberType(8, 8, True, "AP_RND", "AP_WRAP"), 0.0, 127.5, "ap_fixed<9,9,AP_RND,AP_WRAP>"),
        (NumberType(8, 8, True, "AP_TRN", "AP_WRAP"), 0.0, 127.5, "ap_fixed<8,8>"),
        (NumberType(8, 2, False, "AP_TRN", "AP_WRAP"), -1.0, 3.0, "ap_fixed<9,3>"),
        (NumberType(4, 4, True, "", "AP_WRAP"), 0.0, 8.0, "ap_int<5>"),
        (NumberType(8, 12, False, "AP_TRN", "AP_WRAP"), 0.0, 4096.0, "ap_ufixed<9,13>"),
    ],
)
def test_the_type_to_write_holds_the_range_with_the_same_step(given: NumberType, low: float, high: float, wanted: str) -> None:
    assert str(given.widened(low, high)) == wanted


def test_other_ap_types_are_refused(tmp_path: Path) -> None:
    ap_types = tmp_path / "ap_types"
    shutil.copytree(HLS4ML / "templates" / "vivado" / "ap_types", ap_types)
    file = ap_types / "ap_fixed_base.h"
    file.write_text(file.read_text().replace("if (!underflow && !overflow) return;", ""))
    with pytest.raises(UnknownTypesError, match=r"ap_fixed_base\.h of ap_types has .* 0 times, expected 1: .* hls4ml 1\.3\.0"):
        patch(ap_types)
    with pytest.raises(UnknownTypesError, match=r"has no ap_fixed_base\.h"):
        patch(tmp_path)
