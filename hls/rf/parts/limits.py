# SPDX-License-Identifier: Apache-2.0
"""Limits on the widths of numbers inside modules. The file of each stage names the limits of its modules, or NO_LIMIT.

Numbers at the ports of every stage are limited to MAX_CAST_WIDTH.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hypersonic.hls.rf.modes import PoolOp

#: the numeric parameters of a stage, by their names in its module
Numbers = Mapping[str, int]

#: largest input and output width of fixed_cast, in bits
MAX_CAST_WIDTH = 128
#: width, including the sign, of bounds and constants that a module declares as [63:0]
MAX_BOUND_WIDTH = 64
#: largest number of fraction bits of an index of rf_lookup
MAX_INDEX_FRACTION = 120
#: largest shift of the binary point in fixed_cast, in either direction
_MAX_SHIFT = 400
#: largest width of rf_divide's reciprocal, in bits
_MAX_DIVIDE_WIDTH = 126


class Width(NamedTuple):
    """The width of something in a module, the largest width allowed, and its name for error messages."""

    bits: int
    limit: int
    what: str


#: a stage's parameters -> a width in its module
Limit = Callable[[Numbers], Width]

#: for modules that only move numbers, or truncate them to the range of an index
NO_LIMIT: tuple[Limit, ...] = ()


def product(numbers: Numbers) -> Width:
    """Width of the products X times W in rf_mac and rf_depthwise."""
    return Width(numbers["X_WIDTH"] + numbers["W_WIDTH"], MAX_CAST_WIDTH, "a product")


def accumulator(numbers: Numbers) -> Width:
    """Width of the accumulator."""
    return Width(numbers.get("ACC_WIDTH", 1), MAX_CAST_WIDTH, "an accumulator")


def shift(numbers: Numbers) -> Width:
    """Largest shift of the binary point in a module's casts."""
    shifts = (numbers.get(f"{cast}_SHIFT", 0) for cast in ("RESULT", "NORM", "INVERSE"))
    return Width(max(map(abs, shifts)), _MAX_SHIFT, "a shift")


def quotient(numbers: Numbers) -> Width:
    """Width of the quotient in rf_divide, for average pooling."""
    count = numbers.get("PIXELS", numbers.get("K_H", 1) * numbers.get("K_W", 1))
    width = numbers.get("ACC_WIDTH", 1) + (count - 1).bit_length() if numbers["OP"] == PoolOp.AVERAGE else 1
    return Width(width, _MAX_DIVIDE_WIDTH, "a quotient")
