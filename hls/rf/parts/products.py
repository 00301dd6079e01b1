# SPDX-License-Identifier: Apache-2.0
"""Sums of products: proofs that sums in accum_t do not depend on their order, and accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import MAX_WIDTH, Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.attributes import unsupported
from hypersonic.hls.network.raw import cast_all
from hypersonic.hls.rf.parts.casts import accumulator_parameters, result_parameters
from hypersonic.hls.rf.stage import Memory, Value

#: the roundings with which rf_mac can cast a product
PRODUCT_ROUNDINGS = (Rounding.TRN, Rounding.RND)


def sum_range(x: FixedPoint, weight: NDArray[np.int64], bias: NDArray[np.int64]) -> tuple[int, int]:
    """Return the smallest and largest value of any partial sum of bias[j] + x @ weight, over all j, as exact integers.

    Args:
        weight: (n_in, n_out), raw.
        bias: (n_out,), raw, with the fraction bits of the product.
    """
    exact = weight.astype(object)
    a, b = exact * x.min_raw, exact * x.max_raw
    least = np.minimum(np.minimum(a, b), 0).sum(axis=0) + np.minimum(bias, 0)
    most = np.maximum(np.maximum(a, b), 0).sum(axis=0) + np.maximum(bias, 0)
    return int(min(least)), int(max(most))


def check_accumulator(layer: str, x: FixedPoint, weight: Constants, bias: Constants, accum: FixedPoint) -> None:
    """Raise UnsupportedLayerError if the result depends on the order of the sum or needs a rounding that rf_mac does not have.

    Args:
        layer: its name. weight.raw: (n_in, n_out); bias.raw: (n_out,).
    """
    product = x.fraction + weight.fraction
    fraction = max(product, accum.fraction)
    shifted = cast_all(bias, accum) << (fraction - accum.fraction)
    sums = sum_range(x, weight.raw.astype(object) << (fraction - product), shifted) if _saturates(accum) else (0, 0)
    _check_sums(layer, sums, product, len(weight.raw), accum)


def check_pair_accumulator(layer: str, a: FixedPoint, b: FixedPoint, terms: int, accum: FixedPoint) -> None:
    """Raise UnsupportedLayerError as check_accumulator does, for sums of `terms` products of a number of each type."""
    product = a.fraction + b.fraction
    ends = [x * y << max(accum.fraction - product, 0) for x in (a.min_raw, a.max_raw) for y in (b.min_raw, b.max_raw)]
    _check_sums(layer, (terms * min(0, *ends), terms * max(0, *ends)), product, terms, accum)


def _saturates(accum: FixedPoint) -> bool:
    return accum.overflow is not Overflow.WRAP


def _check_sums(layer: str, sums: tuple[int, int], product: int, terms: int, accum: FixedPoint) -> None:
    """Refuse an accumulator in which sums would round or wrap.

    Args:
        sums: bounds of all partial sums.
        product: fraction bits of a product; the sums have these, or accum's if it has more.
    """
    cut = product - accum.fraction
    if cut > 0 and accum.rounding not in PRODUCT_ROUNDINGS:
        raise unsupported(
            layer,
            f"accum is {accum}: it cuts {cut} bits of each product by {accum.rounding}, the multipliers round by "
            f"AP_TRN or AP_RND",
        )
    if not _saturates(accum):
        return
    (low, high), fraction = sums, max(product, accum.fraction)
    grace = terms << max(cut, 0)  # each product may be rounded by one unit
    floor = accum.min_raw + (accum.overflow is Overflow.SAT_SYM)
    if low - grace < floor << (fraction - accum.fraction) or high + grace > accum.max_raw << (fraction - accum.fraction):
        raise unsupported(
            layer,
            f"accum is {accum} and its sums can leave that range, where saturation depends on the order: give it "
            "more integer bits, or AP_WRAP",
        )


def arithmetic(x: FixedPoint, weight: Constants, accum: FixedPoint, y: FixedPoint) -> dict[str, Value]:
    """Return the parameters of the accumulator and of the cast to y."""
    return {**accumulator_parameters(x.fraction + weight.fraction, accum), **result_parameters(accum.fraction, y)}


def bias_memory(file: str, raw: NDArray[Any], accum: FixedPoint) -> Memory:
    """Return the memory with the accumulators' initial values."""
    return Memory(file, raw if accum.width > MAX_WIDTH else raw.astype(np.int64), (accum.width,))
