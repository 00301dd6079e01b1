# SPDX-License-Identifier: Apache-2.0
"""SiLU, GELU and hard SiLU: a ReLU and a table are the function, to the table's step."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp

import numpy as np
import pytest

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.passes.gated import SPANS
from hypersonic.hls.network.tables import CURVES, curve_values

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "silu": lambda x: x / (1 + exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / 2**0.5)) / 2,
    "hard_silu": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_relu_and_the_table_are_the_function_to_half_a_step(name: str) -> None:
    size, kind = 1024, FixedPoint.parse("ap_fixed<18,2>")
    values = curve_values(name, size, kind)
    span = 2 ** CURVES[name].span_log2
    x = np.random.default_rng(1).uniform(-1.2 * span, 1.2 * span, 2000)
    index = np.clip((x * size / span).astype(int) + size // 2, 0, size - 1)
    ours = np.maximum(x, 0) + values.raw[index] * 2.0**-values.fraction
    tail = 0.003 if name == "silu" else 0.0002  # of the function at the ends of the table
    assert np.abs(ours - [FUNCTIONS[name](one) for one in x]).max() < max(tail, span / size / 2 * 0.55) + 2**-16


def test_the_cpp_and_the_cores_have_tables_of_one_range() -> None:
    assert {name: 2**curve.span_log2 for name, curve in CURVES.items() if curve.dip} == SPANS
