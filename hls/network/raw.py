# SPDX-License-Identifier: Apache-2.0
"""Arrays of raw integers of any size, and constants, in other types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import MAX_WIDTH, Constants, FixedPoint, Overflow, shift_right

#: Python's integers, in an array of dtype object
Integers = NDArray[Any]


def cast(values: Integers, fraction: int, to: FixedPoint) -> Integers:
    """Return the raw values of values * 2**-fraction in a type, as FixedPoint.cast does one by one."""
    return confine(shift_right(values, fraction - to.fraction, to.rounding), to)


def confine(raw: Integers, to: FixedPoint) -> Integers:
    """Return raw values of any size in the range of a type, as FixedPoint.confine does one by one."""
    if to.overflow is not Overflow.WRAP:
        return np.where(raw > to.max_raw, to.above_raw, np.where(raw < to.least_raw, to.below_raw, raw)).astype(object)
    low_bits = raw & ((1 << to.width) - 1)
    return np.where(low_bits > to.max_raw, low_bits - (1 << to.width), low_bits)


def plus(values: Integers, more: Integers, fraction: int, to: FixedPoint) -> Integers:
    """Return numbers of type `to` plus others with `fraction` fraction bits, cast to `to`: an accumulator's `+=`."""
    finest = max(to.fraction, fraction)
    return cast((values << finest - to.fraction) + (more << finest - fraction), finest, to)


def signed_width(raw: NDArray[Any]) -> int:
    """Return the bits of the narrowest two's complement type that holds all numbers; 1 for an empty array."""
    if not raw.size:
        return 1
    low, high = int(raw.min()), int(raw.max())
    return 1 + max((~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length())


def at_fraction(values: Constants, fraction: int) -> NDArray[Any]:
    """Return the raw values with `fraction` fraction bits, at least as many as before, as exact integers of any size."""
    return values.raw.astype(object) << (fraction - values.fraction)


def raw_array(numbers: Integers, width: int) -> NDArray[Any]:
    """Return raw values of a type of `width` bits as int64, or as Python's integers if int64 is too narrow."""
    return numbers.astype(object if width > MAX_WIDTH else np.int64)


def cast_all(values: Constants, to: FixedPoint) -> Integers:
    """Return the raw values of constants cast to another type, in their shape."""
    return cast(values.raw.astype(object), values.fraction, to)
