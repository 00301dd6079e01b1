# SPDX-License-Identifier: Apache-2.0
"""Strategies and slow, obvious models that the hls tests share."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from hypothesis import strategies as st

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.network import Precision

roundings = st.sampled_from(Rounding)
overflows = st.sampled_from(Overflow)


@st.composite
def fixed_points(draw: st.DrawFn, max_width: int = 40) -> FixedPoint:
    """Any type of up to max_width bits, binary point inside or a little outside."""
    width = draw(st.integers(1, max_width))
    integer = draw(st.integers(-4, width + 4))
    return FixedPoint(width, integer, draw(st.booleans()), draw(roundings), draw(overflows))


def precision_of(fixed: FixedPoint) -> Precision:
    return Precision(fixed.width, fixed.fraction, fixed.signed, fixed.rounding, fixed.overflow)


def exact_raw(value: Fraction, to: FixedPoint) -> int:
    """UG1399 in exact fractions, sharing no code with hls/fixed.py: the raw value of a finite number in a type."""
    scaled = value * Fraction(2) ** to.fraction
    whole = floor(scaled)
    rest = scaled - whole
    if to.rounding is Rounding.RND and rest >= Fraction(1, 2):
        whole += 1
    if to.rounding is Rounding.RND_CONV and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    low = -(2 ** (to.width - 1)) if to.signed else 0
    count = 2**to.width
    if to.overflow is Overflow.SAT:
        return sorted((low, whole, low + count - 1))[1]
    return (whole - low) % count + low
