# SPDX-License-Identifier: Apache-2.0
"""Fixed-point numbers as the field writes them: ap_fixed<W,I,Q,O> (UG1399, "Arbitrary Precision Fixed-Point Data Types").

A raw value is the integer in the register; the number it stands for is raw * 2**-fraction. Raw values travel as int64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Rounding(StrEnum):
    """What happens to the bits below the last one (AP_ prefix as in Vitis)."""

    TRN = "AP_TRN"  # towards minus infinity
    RND = "AP_RND"  # to nearest, ties towards plus infinity
    RND_CONV = "AP_RND_CONV"  # to nearest, ties to even


class Overflow(StrEnum):
    """What happens to a value that does not fit."""

    WRAP = "AP_WRAP"  # the upper bits are dropped
    SAT = "AP_SAT"  # the nearest end of the range


class PrecisionError(ValueError):
    """A fixed-point type that is malformed or that no core computes exactly."""


_SPELLING = re.compile(
    r"^ap_(u?)fixed<\s*(-?\d+)\s*,\s*(-?\d+)\s*(?:,\s*(?:AP_)?(\w+)\s*)?(?:,\s*(?:AP_)?(\w+)\s*)?(?:,\s*0\s*)?>$"
)

#: widest type this project computes with: raw values and their products stay inside int64 views
MAX_WIDTH = 62

#: beyond this a double is a multiple of every 2**width
_HUGE = 2.0**1000


@dataclass(frozen=True)
class FixedPoint:
    """An ap_fixed or ap_ufixed type.

    width: bits in all, 1 to 62. integer: bits left of the binary point, the sign included; may be negative or above width.
    Raises PrecisionError for a width outside that range.
    """

    width: int
    integer: int
    signed: bool = True
    rounding: Rounding = Rounding.TRN
    overflow: Overflow = Overflow.WRAP

    def __post_init__(self) -> None:
        if not 1 <= self.width <= MAX_WIDTH:
            raise PrecisionError(f"{self}: width is {self.width}, expected 1 to {MAX_WIDTH}")

    @classmethod
    def parse(cls, text: str) -> FixedPoint:
        """Read `ap_fixed<16,6,AP_RND_CONV,AP_SAT>`; AP_ may be left out, the modes default to TRN and WRAP as in Vitis.

        Raises PrecisionError with the text for anything else, the unsupported modes (RND_ZERO, SAT_SYM, ...) included.
        """
        match = _SPELLING.match(text.strip())
        if not match:
            raise PrecisionError(f"precision is {text!r}, expected ap_fixed<W,I[,Q[,O]]> or ap_ufixed<W,I[,Q[,O]]>")
        unsigned, width, integer, rounding, overflow = match.groups()
        try:
            return cls(
                int(width),
                int(integer),
                not unsigned,
                Rounding(f"AP_{rounding}") if rounding else Rounding.TRN,
                Overflow(f"AP_{overflow}") if overflow else Overflow.WRAP,
            )
        except ValueError as error:
            raise PrecisionError(
                f"precision is {text!r}: {error}; rounding may be TRN, RND, RND_CONV and overflow WRAP, SAT"
            ) from error

    def __str__(self) -> str:
        kind = "ap_fixed" if self.signed else "ap_ufixed"
        return f"{kind}<{self.width},{self.integer},{self.rounding},{self.overflow}>"

    @property
    def fraction(self) -> int:
        """Bits right of the binary point; the number is raw * 2**-fraction. May be negative."""
        return self.width - self.integer

    @property
    def min_raw(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max_raw(self) -> int:
        return (1 << (self.width - self.signed)) - 1

    def from_float(self, x: ArrayLike) -> NDArray[np.int64]:
        """Real numbers of any shape -> raw int64 of that shape, by this type's own rounding and overflow.

        NaN gives 0 and the infinities the ends of the range, whatever the overflow mode: the same in every engine of this
        project (C++ leaves both undefined). Exact for every float32 and float64.
        """
        values = np.asarray(x, dtype=np.float64)
        finite = np.isfinite(values)
        with np.errstate(over="ignore"):
            scaled = np.ldexp(np.where(finite, values, 0.0), self.fraction)
        # where a double leaves its own range, the number is far outside this type's, and a multiple of it
        scaled = np.clip(scaled, -_HUGE, _HUGE)
        whole = _ROUND[self.rounding](scaled)
        raw = self._saturate(whole) if self.overflow is Overflow.SAT else self._wrap(whole)
        raw = np.where(np.isposinf(values), self.max_raw, raw)
        return np.where(np.isneginf(values), self.min_raw, raw)

    def to_float(self, raw: ArrayLike) -> NDArray[np.float64]:
        """Raw integers of any shape -> the numbers they stand for (exact up to 53 bits)."""
        return np.ldexp(np.asarray(raw, dtype=np.int64).astype(np.float64), -self.fraction)

    def _saturate(self, whole: NDArray[np.float64]) -> NDArray[np.int64]:
        low, high = self.min_raw, self.max_raw
        inside = np.clip(whole, low, np.nextafter(float(high) + 1.0, 0.0)).astype(np.int64)
        return np.where(whole >= high, high, np.where(whole <= low, low, inside))

    def _wrap(self, whole: NDArray[np.float64]) -> NDArray[np.int64]:
        modulus = float(1 << self.width)
        low_bits = np.fmod(whole, modulus).astype(np.int64) & ((1 << self.width) - 1)
        return np.where(low_bits > self.max_raw, low_bits - (1 << self.width), low_bits) if self.signed else low_bits


def _ties_up(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nearest, ties towards plus infinity; floor(x + 0.5) would round 0.49999999999999994 up."""
    low = np.floor(x)
    return np.where(x - low >= 0.5, low + 1.0, low)


_ROUND: dict[Rounding, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    Rounding.TRN: np.floor,
    Rounding.RND: _ties_up,
    Rounding.RND_CONV: np.rint,
}
