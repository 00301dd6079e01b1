# SPDX-License-Identifier: Apache-2.0
"""Fixed-point types as parameters of the modules in hls/rtl/rf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import MAX_WIDTH, OVERFLOW_CODES, ROUNDING_CODES, Constants, FixedPoint, Rounding
from hypersonic.hls.rf.stage import Value


def result_parameters(fraction: int, y: FixedPoint) -> dict[str, Value]:
    """Return the parameters of the cast at the end of a stage, from a number with `fraction` fraction bits to y."""
    return {
        "RESULT_SHIFT": fraction - y.fraction,
        "Y_WIDTH": y.width,
        "Y_SIGNED": int(y.signed),
        "ROUNDING": ROUNDING_CODES[y.rounding],
        "OVERFLOW": OVERFLOW_CODES[y.overflow],
    }


def accumulator_parameters(product_fraction: int, accum: FixedPoint) -> dict[str, Value]:
    """Return the parameters of the cast of a product with `product_fraction` fraction bits to the accumulator."""
    return {
        "PRODUCT_SHIFT": product_fraction - accum.fraction,
        "PRODUCT_ROUNDING": int(accum.rounding is Rounding.RND),
        "ACC_WIDTH": accum.width,
        "ACC_SIGNED": int(accum.signed),
    }


def signed_width(raw: NDArray[Any]) -> int:
    """Return the bits of the narrowest two's complement type that holds all numbers; 1 for an empty array."""
    if not raw.size:
        return 1
    low, high = int(raw.min()), int(raw.max())
    return 1 + max((~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length())


def at_fraction(values: Constants, fraction: int) -> NDArray[Any]:
    """Return the raw values with `fraction` fraction bits, at least as many as before, as exact integers of any size."""
    return values.raw.astype(object) << (fraction - values.fraction)


def raw_array(numbers: Sequence[Any], width: int) -> NDArray[Any]:
    """Return raw values of a type of `width` bits as an array; its dtype is object if int64 is too narrow."""
    return np.array(numbers, dtype=object if width > MAX_WIDTH else np.int64)


def cast_all(values: Constants, to: FixedPoint) -> list[int]:
    """Return the raw values of the numbers cast to another type."""
    return [to.cast(int(value), values.fraction) for value in values.raw.reshape(-1)]
