# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers in the usual notation: ap_fixed<W,I,Q,O> (UG1399, "Arbitrary Precision Fixed-Point Data Types").

A raw value is the integer in the register; the number it stands for is raw * 2**-fraction. Raw values are passed as int64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Rounding(StrEnum):
    """Quantisation mode: how bits below the least significant one are rounded. Values are Vitis' names (UG1399)."""

    TRN = "AP_TRN"  # towards minus infinity
    RND = "AP_RND"  # to nearest, ties towards plus infinity
    RND_CONV = "AP_RND_CONV"  # to nearest, ties to even
    TRN_ZERO = "AP_TRN_ZERO"  # towards zero
    RND_ZERO = "AP_RND_ZERO"  # to nearest, ties towards zero
    RND_INF = "AP_RND_INF"  # to nearest, ties away from zero
    RND_MIN_INF = "AP_RND_MIN_INF"  # to nearest, ties towards minus infinity


#: the values of the RTL parameter ROUNDING; hls/rf/packages.py writes them into ap_fixed_pkg.sv
ROUNDING_CODES = {
    Rounding.TRN: 0,
    Rounding.RND: 1,
    Rounding.RND_CONV: 2,
    Rounding.TRN_ZERO: 3,
    Rounding.RND_ZERO: 4,
    Rounding.RND_INF: 5,
    Rounding.RND_MIN_INF: 6,
}

#: modes whose result depends on a number's sign
BY_SIGN = frozenset({Rounding.TRN_ZERO, Rounding.RND_ZERO, Rounding.RND_INF})


class Overflow(StrEnum):
    """Overflow mode: what a value that does not fit becomes. Values are Vitis' names (UG1399)."""

    WRAP = "AP_WRAP"  # the upper bits are dropped
    SAT = "AP_SAT"  # the nearest end of the range
    SAT_ZERO = "AP_SAT_ZERO"  # zero
    SAT_SYM = "AP_SAT_SYM"  # the nearest end of the range -max to max, which leaves out two's complement's most negative value


#: the values of the RTL parameter OVERFLOW
OVERFLOW_CODES = {Overflow.WRAP: 0, Overflow.SAT: 1, Overflow.SAT_ZERO: 2, Overflow.SAT_SYM: 3}


def rtl_name(mode: Rounding | Overflow) -> str:
    """The constant of a mode in RTL, for example `ap_fixed_pkg::RND_CONV`."""
    return f"ap_fixed_pkg::{mode.removeprefix('AP_')}"


def _names(modes: type[StrEnum]) -> str:
    return ", ".join(mode.removeprefix("AP_") for mode in modes)


class PrecisionError(ValueError):
    """A fixed-point type is malformed, or no core computes it exactly."""


_SPELLING = re.compile(
    r"^ap_(u?)fixed<\s*(-?\d+)\s*,\s*(-?\d+)\s*(?:,\s*(?:AP_)?(\w+)\s*)?(?:,\s*(?:AP_)?(\w+)\s*)?(?:,\s*0\s*)?>$"
)

#: the widest type of a tensor and of arrays, in bits: raw values and their products fit int64
MAX_WIDTH = 62

#: every double beyond this is a multiple of 2**width for every width
_HUGE = 2.0**1000


@dataclass(frozen=True)
class FixedPoint:
    """An ap_fixed or ap_ufixed type of any width; a number is raw * 2**-fraction.

    Attributes:
        width: total number of bits.
        integer: bits left of the binary point, including the sign; may be negative or exceed width. Methods on single integers
            take types of any width, those on arrays up to MAX_WIDTH (see checked).
    """

    width: int
    integer: int
    signed: bool = True
    rounding: Rounding = Rounding.TRN
    overflow: Overflow = Overflow.WRAP

    @classmethod
    def with_fraction(
        cls,
        width: int,
        fraction: int,
        signed: bool = True,
        rounding: Rounding = Rounding.TRN,
        overflow: Overflow = Overflow.WRAP,
    ) -> FixedPoint:
        """Return the type with `fraction` bits right of the binary point, which may be negative or exceed width."""
        return FixedPoint(width, width - fraction, signed, rounding, overflow)

    def checked(self) -> FixedPoint:
        """Return the type itself if its width is 1 to MAX_WIDTH; raise PrecisionError otherwise."""
        if not 1 <= self.width <= MAX_WIDTH:
            raise PrecisionError(f"{self}: width is {self.width}, expected 1 to {MAX_WIDTH}")
        return self

    @classmethod
    def parse(cls, text: str) -> FixedPoint:
        """Parse a type such as `ap_fixed<16,6,AP_RND_CONV,AP_SAT>`. `AP_` may be left out; the modes default to TRN and WRAP,
        as in Vitis.

        Raises PrecisionError for any other text, for the overflow mode WRAP_SM, for saturation bits, and for a width outside 1
        to MAX_WIDTH.
        """
        match = _SPELLING.match(text.strip())
        if not match:
            raise PrecisionError(f"precision is {text!r}, expected ap_fixed<W,I[,Q[,O]]> or ap_ufixed<W,I[,Q[,O]]>")
        unsigned, width, integer, rounding, overflow = match.groups()
        try:
            modes = Rounding(f"AP_{rounding or 'TRN'}"), Overflow(f"AP_{overflow or 'WRAP'}")
        except ValueError as error:
            raise PrecisionError(
                f"precision is {text!r}: {error}; rounding may be {_names(Rounding)} and overflow {_names(Overflow)}"
            ) from error
        return cls(int(width), int(integer), not unsigned, *modes).checked()

    def __str__(self) -> str:
        kind = "ap_fixed" if self.signed else "ap_ufixed"
        return f"{kind}<{self.width},{self.integer},{self.rounding},{self.overflow}>"

    @property
    def fraction(self) -> int:
        """Bits right of the binary point; may be negative."""
        return self.width - self.integer

    @property
    def min_raw(self) -> int:
        """The smallest raw value that the register can hold."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max_raw(self) -> int:
        """The largest raw value that the register can hold."""
        return (1 << (self.width - self.signed)) - 1

    @property
    def least_raw(self) -> int:
        """The smallest raw value that a conversion can give: min_raw, or -max_raw in SAT_SYM."""
        return -self.max_raw if self.signed and self.overflow is Overflow.SAT_SYM else self.min_raw

    @property
    def above_raw(self) -> int:
        """The raw value of a number that is too large; in WRAP, of plus infinity only."""
        return 0 if self.overflow is Overflow.SAT_ZERO else self.max_raw

    @property
    def below_raw(self) -> int:
        """The raw value of a number that is too small; in WRAP, of minus infinity only."""
        if self.overflow is Overflow.SAT_ZERO or not self.signed:
            return 0
        return self.least_raw

    def from_float(self, x: ArrayLike) -> NDArray[np.int64]:
        """Convert real numbers of any shape to raw int64 of that shape, with this type's rounding and overflow modes.

        The conversion is exact for every float32 and float64. NaN gives 0. Infinities saturate: they give 0 in SAT_ZERO and an
        end of the range in every other mode, WRAP included. Every engine of this project does the same (C++ leaves these
        undefined). Raises PrecisionError for a type wider than MAX_WIDTH.
        """
        self.checked()
        values = np.asarray(x, dtype=np.float64)
        finite = np.isfinite(values)
        with np.errstate(over="ignore"):
            scaled = np.ldexp(np.where(finite, values, 0.0), self.fraction)
        # a scaled value that overflows a double is far outside this type's range, and a multiple of 2**width
        scaled = np.clip(scaled, -_HUGE, _HUGE)
        whole = _ROUND[self.rounding](scaled)
        raw = self._wrap(whole) if self.overflow is Overflow.WRAP else self._saturate(whole)
        raw = np.where(np.isposinf(values), self.above_raw, raw)
        return np.where(np.isneginf(values), self.below_raw, raw)

    def to_float(self, raw: ArrayLike) -> NDArray[np.float64]:
        """Convert raw integers of any shape to the numbers they represent, float64, exact up to 53 bits.

        Raises PrecisionError for a type wider than MAX_WIDTH.
        """
        self.checked()
        return np.ldexp(np.asarray(raw, dtype=np.int64).astype(np.float64), -self.fraction)

    def cast(self, value: int, fraction: int) -> int:
        """Return the raw value of value * 2**-fraction in this type, exactly as an assignment to an ap_fixed gives it."""
        return self.confine(shift_right(value, fraction - self.fraction, self.rounding))

    def confine(self, raw: int) -> int:
        """Bring a raw value of any size into this type's range by its overflow mode."""
        if self.overflow is Overflow.WRAP:
            low_bits = raw & ((1 << self.width) - 1)
            return low_bits - (1 << self.width) if low_bits > self.max_raw else low_bits
        return self.above_raw if raw > self.max_raw else self.below_raw if raw < self.least_raw else raw

    def _saturate(self, whole: NDArray[np.float64]) -> NDArray[np.int64]:
        low = self.min_raw
        # powers of two, because the ends of the range may not be representable as doubles
        beyond = float(1 << (self.width - self.signed))
        inside = np.clip(whole, low, np.nextafter(beyond, 0.0)).astype(np.int64)
        beneath = whole <= low if self.overflow is Overflow.SAT_SYM else whole < low
        return np.where(whole >= beyond, self.above_raw, np.where(beneath, self.below_raw, inside))

    def _wrap(self, whole: NDArray[np.float64]) -> NDArray[np.int64]:
        modulus = float(1 << self.width)
        low_bits = np.fmod(whole, modulus).astype(np.int64) & ((1 << self.width) - 1)
        return np.where(low_bits > self.max_raw, low_bits - (1 << self.width), low_bits) if self.signed else low_bits


def _to_nearest(x: NDArray[np.float64], up: NDArray[np.bool_] | bool) -> NDArray[np.float64]:
    """Round to nearest; a tie goes up where `up` is true. floor(x + 0.5) would round 0.49999999999999994 up."""
    low = np.floor(x)
    rest = x - low
    return np.where((rest > 0.5) | ((rest == 0.5) & up), low + 1.0, low)


_ROUND: dict[Rounding, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    Rounding.TRN: np.floor,
    Rounding.RND: lambda x: _to_nearest(x, True),
    Rounding.RND_CONV: np.rint,
    Rounding.TRN_ZERO: np.trunc,
    Rounding.RND_ZERO: lambda x: _to_nearest(x, x < 0),
    Rounding.RND_INF: lambda x: _to_nearest(x, x > 0),
    Rounding.RND_MIN_INF: lambda x: _to_nearest(x, False),
}


Whole = TypeVar("Whole", int, NDArray[Any])


def shift_right(value: Whole, bits: int, rounding: Rounding) -> Whole:
    """Return value * 2**-bits, rounded to an integer by `rounding`; negative `bits` shift left, which is exact.

    Args:
        value: an integer, or an array of Python's integers (dtype object).
    """
    if bits <= 0:
        return value << -bits
    half = 1 << (bits - 1)
    added: dict[Rounding, Any] = {
        Rounding.TRN: 0,
        Rounding.RND: half,
        Rounding.RND_CONV: half - 1 + ((value >> bits) & 1),
        Rounding.TRN_ZERO: (2 * half - 1) * (value < 0),
        Rounding.RND_ZERO: half - (value >= 0),
        Rounding.RND_INF: half - (value < 0),
        Rounding.RND_MIN_INF: half - 1,
    }
    shifted: Whole = (value + added[rounding]) >> bits
    return shifted


@dataclass(frozen=True, eq=False)
class Constants:
    """Weights as the C++ holds them: raw int64 of any shape; each number is raw * 2**-fraction."""

    raw: NDArray[np.int64]
    fraction: int
