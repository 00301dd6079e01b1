# SPDX-License-Identifier: Apache-2.0
"""Types as the parameters of hls/rtl/rf_*.sv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import MAX_WIDTH, OVERFLOW_CODES, ROUNDING_CODES, Constants, FixedPoint, Rounding
from hypersonic.hls.rf.stage import Value


def result_parameters(fraction: int, y: FixedPoint) -> dict[str, Value]:
    """The cast at a stage's end, from a number of that fraction to y."""
    return {
        "RESULT_SHIFT": fraction - y.fraction,
        "Y_WIDTH": y.width,
        "Y_SIGNED": int(y.signed),
        "ROUNDING": ROUNDING_CODES[y.rounding],
        "OVERFLOW": OVERFLOW_CODES[y.overflow],
    }


def accumulator_parameters(product_fraction: int, accum: FixedPoint) -> dict[str, Value]:
    """How a product of that fraction enters the accumulator."""
    return {
        "PRODUCT_SHIFT": product_fraction - accum.fraction,
        "PRODUCT_ROUNDING": int(accum.rounding is Rounding.RND),
        "ACC_WIDTH": accum.width,
        "ACC_SIGNED": int(accum.signed),
    }


def signed_width(raw: NDArray[Any]) -> int:
    """Bits of the narrowest two's complement that holds every number; 1 for none."""
    if not raw.size:
        return 1
    low, high = int(raw.min()), int(raw.max())
    return 1 + max((~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length())


def at_fraction(values: Constants, fraction: int) -> NDArray[Any]:
    """The numbers on a finer grid, exact integers of any size."""
    return values.raw.astype(object) << (fraction - values.fraction)


def raw_array(numbers: Sequence[Any], width: int) -> NDArray[Any]:
    """Raw values of a type of so many bits, exact whatever they are."""
    return np.array(numbers, dtype=object if width > MAX_WIDTH else np.int64)


def cast_all(values: Constants, to: FixedPoint) -> list[int]:
    """The numbers' raw values in another type."""
    return [to.cast(int(value), values.fraction) for value in values.raw]
