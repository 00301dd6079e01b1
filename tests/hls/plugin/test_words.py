# SPDX-License-Identifier: Apache-2.0
"""Outputs wider than a row's elements: read as words, and rounded once to a float."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hypersonic.hls.fixed import MAX_WIDTH, FixedPoint
from hypersonic.hls.model_graph import TensorType
from hypersonic.hls.plugin.words import in_words, to_floats, word_bits

WIDTHS = (54, 62, 63, 64, 67, 90, 128)


def test_an_element_that_is_too_wide_for_a_row_becomes_words_of_equal_width() -> None:
    spec = in_words("y", TensorType("y", (2, 3), FixedPoint(90, 40)))
    assert (spec.shape, spec.fixed.width, spec.fixed.signed) == ((2, 3, 2), 45, False)
    assert in_words("y", TensorType("y", (3,), FixedPoint(MAX_WIDTH, 9))).fixed == FixedPoint(MAX_WIDTH, 9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_wide_number_is_rounded_to_the_nearest_float(width: int, signed: bool, dtype: type) -> None:
    fixed = FixedPoint(width, 20, signed)
    rng = np.random.default_rng(width)
    drawn = [int.from_bytes(rng.bytes(16)) % (1 << (width - signed)) >> int(rng.integers(0, width)) for _ in range(200)]
    raw = [value * (-1 if signed and index % 2 else 1) for index, value in enumerate([*drawn, fixed.max_raw])]
    bits = width if width <= MAX_WIDTH else word_bits(fixed)
    words = [[value if bits == width else value >> at & ((1 << bits) - 1) for at in range(0, width, bits)] for value in raw]
    got = to_floats(np.array(words, dtype=np.int64).reshape(len(raw), -1), fixed, np.dtype(dtype))
    assert got.dtype == dtype
    assert got.shape == (len(raw), 1)
    for value, number in zip(raw, got[:, 0], strict=True):
        exact = Fraction(value) / (1 << fixed.fraction)
        beside = [np.nextafter(number, dtype(end)) for end in (-np.inf, np.inf)]
        assert abs(Fraction(float(number)) - exact) <= min(abs(Fraction(float(other)) - exact) for other in beside)
