# SPDX-License-Identifier: Apache-2.0
"""How wide numbers inside a module may be. Each stage's file names the limits of its modules, or NO_LIMIT.

The numbers at a stage's ports have a limit in any case: MAX_CAST_WIDTH.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

#: a stage's parameters that are numbers, by their names in its module
Numbers = Mapping[str, int]

#: bits that rf_cast takes in, and gives out
MAX_CAST_WIDTH = 128
#: bits of the bounds and constants that a module takes as [63:0], their sign among them
MAX_BOUND_WIDTH = 64
#: bits by which rf_cast moves the point, either way
_MAX_SHIFT = 400
#: bits that rf_divide's reciprocal can have
_MAX_DIVIDE_WIDTH = 126


class Width(NamedTuple):
    """How wide something in a module is, how wide it may be, and what it is."""

    bits: int
    limit: int
    what: str


#: a stage's parameters -> a width in its module
Limit = Callable[[Numbers], Width]

#: of modules in which numbers are only moved, or cut to what an index can be
NO_LIMIT: tuple[Limit, ...] = ()


def product(numbers: Numbers) -> Width:
    """X by W, of rf_mac and rf_depthwise."""
    return Width(numbers["X_WIDTH"] + numbers["W_WIDTH"], MAX_CAST_WIDTH, "a product")


def accumulator(numbers: Numbers) -> Width:
    return Width(numbers.get("ACC_WIDTH", 1), MAX_CAST_WIDTH, "an accumulator")


def shift(numbers: Numbers) -> Width:
    """Of the points in a module's casts."""
    shifts = (numbers.get(f"{cast}_SHIFT", 0) for cast in ("RESULT", "NORM", "INVERSE"))
    return Width(max(map(abs, shifts)), _MAX_SHIFT, "a shift")


def quotient(numbers: Numbers) -> Width:
    """In rf_divide, of the pools."""
    count = numbers.get("PIXELS", numbers.get("K_H", 1) * numbers.get("K_W", 1))
    width = numbers.get("ACC_WIDTH", 1) + (count - 1).bit_length() if numbers["OP"] == 1 else 1
    return Width(width, _MAX_DIVIDE_WIDTH, "a quotient")
