# SPDX-License-Identifier: Apache-2.0
"""What `hypersonic.hls.overflows` refuses, and what the report keeps of its figures."""

from __future__ import annotations

import json
from math import inf, nan
from types import SimpleNamespace

import numpy as np
import pytest

from hypersonic.hls.csim.overflow.figures import NumberType, Overflows, VariableCounts
from hypersonic.hls.csim.overflow.model import _raw, overflows
from hypersonic.hls.csim.wraps import wraps_json
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

INPUTS = Row((TensorSpec("x", (3,), FixedPoint(16, 6)),))


@pytest.mark.parametrize("model", [SimpleNamespace(), SimpleNamespace(config=None)])
def test_a_model_that_hls4ml_has_not_converted_is_refused(model: object) -> None:
    with pytest.raises(ConversionError, match="the model is a SimpleNamespace, expected a ModelGraph"):
        overflows(model, np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((0, 3)), r"rows have shape \(0, 3\), expected \(rows, 3\)"),
        (np.zeros((4, 2)), r"rows have shape \(4, 2\), expected \(rows, 3\)"),
        (np.full((4, 3), nan), "rows hold NaN or infinity"),
        (np.full((4, 3), inf), "rows hold NaN or infinity"),
    ],
)
def test_rows_that_hls4ml_would_not_compute_are_refused(rows: np.ndarray, words: str) -> None:
    with pytest.raises(ConversionError, match=words):
        _raw(INPUTS, rows)


def test_an_infinite_entry_of_a_table_is_json_that_any_program_reads() -> None:
    kind = NumberType(18, 8, True, "AP_RND", "AP_SAT")
    counts = (1024, 0, 1, 0, 0, 0, 1, 0.125, inf, inf, -inf)
    found = Overflows("net", 500, (VariableCounts("softmax", "inv_table_t", kind, True, *counts),))
    (entry,) = json.loads(json.dumps(wraps_json(found), allow_nan=False))
    assert (entry["least"], entry["greatest"]) == (0.125, None)
