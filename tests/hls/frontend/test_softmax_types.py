# SPDX-License-Identifier: Apache-2.0
"""The types of `softmax: exact`, computed as hls4ml's C++ does, against the softmax itself."""

from __future__ import annotations

import numpy as np
import pytest

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.softmax.error import computed
from hypersonic.hls.frontend.softmax.exact import exact_types
from hypersonic.hls.frontend.softmax.faults import Tables

#: hls4ml's own type of the exponentials
EXP = FixedPoint.parse("ap_fixed<18,8,AP_RND,AP_SAT>")


def tables(types: dict[str, str | int]) -> Tables:
    kinds = {name: FixedPoint.parse(text) for name, text in types.items() if isinstance(text, str)}
    sizes = int(types["exp_table_size"]), int(types["inv_table_size"])
    return Tables(
        "stable", kinds["inp_norm_t"], sizes, EXP, kinds["accum_t"], kinds["inv_inp_t"], kinds["inv_table_t"],
        kinds["result_t"],
    )  # fmt: skip


@pytest.mark.parametrize(("classes", "error"), [(2, 0.015), (5, 0.015), (7, 0.015), (100, 0.02), (1000, 0.07)])
def test_exact_types_are_exact_to_the_tables_steps_for_any_number_of_classes(classes: int, error: float) -> None:
    rng = np.random.default_rng(classes)
    for reach in (1.0, 8.0, 30.0):
        rows = np.round(rng.uniform(-reach, reach, (300, classes)) * 1024) / 1024
        exact = np.exp(rows - rows.max(axis=1, keepdims=True))
        exact /= exact.sum(axis=1, keepdims=True)
        assert np.abs(computed(tables(exact_types(classes)), rows) - exact).max() < error


def test_with_hls4mls_own_types_a_class_33_below_the_best_comes_out_as_1_below() -> None:
    own = {**exact_types(2), "inp_norm_t": "ap_ufixed<15,5>", "inv_inp_t": str(EXP), "inv_table_t": str(EXP)}
    far, near = computed(tables(own), np.array([[16.5, -16.5], [1.0, 0.0]]))
    assert far.tolist() == near.tolist()
    assert far[1] > 0.25
