# SPDX-License-Identifier: Apache-2.0
"""Strategies and slow, obvious models that the hls tests share."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from hypothesis import strategies as st

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding

roundings = st.sampled_from(Rounding)
overflows = st.sampled_from(Overflow)


@st.composite
def fixed_points(draw: st.DrawFn, max_width: int = 40) -> FixedPoint:
    """Any type of up to max_width bits, binary point inside or a little outside."""
    width = draw(st.integers(1, max_width))
    integer = draw(st.integers(-4, width + 4))
    return FixedPoint(width, integer, draw(st.booleans()), draw(roundings), draw(overflows))


def exact_raw(value: Fraction, to: FixedPoint) -> int:
    """UG1399 in exact fractions, sharing no code with hls/fixed.py: the raw value of a finite number in a type."""
    scaled = value * Fraction(2) ** to.fraction
    whole = floor(scaled)
    rest = scaled - whole
    tie, half = rest == Fraction(1, 2), Fraction(1, 2)
    up = {
        Rounding.TRN: False,
        Rounding.RND: rest >= half,
        Rounding.RND_CONV: rest > half or (tie and whole % 2 == 1),
        Rounding.TRN_ZERO: rest > 0 and scaled < 0,
        Rounding.RND_ZERO: rest > half or (tie and scaled < 0),
        Rounding.RND_INF: rest > half or (tie and scaled > 0),
        Rounding.RND_MIN_INF: rest > half,
    }
    whole += up[to.rounding]
    low = -(2 ** (to.width - 1)) if to.signed else 0
    count = 2**to.width
    if to.overflow is Overflow.WRAP:
        return (whole - low) % count + low
    if to.overflow is Overflow.SAT_ZERO:
        return whole if low <= whole < low + count else 0
    if to.overflow is Overflow.SAT_SYM and to.signed:
        low, count = low + 1, count - 1
    return sorted((low, whole, low + count - 1))[1]
