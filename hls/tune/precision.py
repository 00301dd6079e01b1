# SPDX-License-Identifier: Apache-2.0
"""Chooses fixed-point types for the numbers that occur."""

from __future__ import annotations

from math import ceil, floor, log2

from hypersonic.hls.frontend.survey import Numbers

#: the width of a type (hls4ml's default), and the largest width, for numbers that span orders of magnitude
WIDTH, MOST_WIDTH = 16, 24

#: bits that the smallest of those numbers still has right of its leading one
_FINE_BITS = 8

#: numbers that did not occur may be larger than those that did
_ROOM = 1.25


def type_for(numbers: Numbers, *, modes: str, width: int = WIDTH, fine: bool = False, unsigned: bool = False) -> str:
    """Return an ap_fixed type that holds the numbers, with room for numbers that are larger by a quarter.

    Args:
        modes: rounding and overflow, such as "AP_RND,AP_SAT"; "" for hls4ml's.
        fine: make the type wider, up to MOST_WIDTH, where the smallest element would have few bits.
        unsigned: ap_ufixed if no number is negative.
    """
    is_signed = numbers.least < 0 or not unsigned
    integer = integer_bits(max(abs(numbers.least), abs(numbers.greatest))) + is_signed
    if fine and numbers.finest > 0:
        width = min(MOST_WIDTH, max(width, integer + _FINE_BITS - floor(log2(numbers.finest))))
    return f"ap_{'' if is_signed else 'u'}fixed<{width},{integer}{f',{modes}' if modes else ''}>"


def integer_bits(largest: float) -> int:
    """Return the bits left of the binary point that a magnitude needs, with room; negative for small ones. 0 needs none."""
    return ceil(log2(largest * _ROOM)) if largest > 0 else 0
