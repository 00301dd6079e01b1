# SPDX-License-Identifier: Apache-2.0
"""Fixed-point types as parameters of the modules in hls/rtl/rf."""

from __future__ import annotations

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Rounding
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
