# SPDX-License-Identifier: Apache-2.0
"""The counts of the variables of a network's layers, and the types that would hold their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite

from hypersonic.hls.fixed import Rounding


@dataclass(frozen=True)
class NumberType:
    """An ap_fixed, ap_ufixed, ap_int or ap_uint.

    Attributes:
        rounding, overflow: Vitis' names; rounding is "" for ap_int and ap_uint.
    """

    width: int
    integer: int
    signed: bool
    rounding: str
    overflow: str

    def __str__(self) -> str:
        sign = "" if self.signed else "u"
        if not self.rounding:
            return f"ap_{sign}int<{self.width}>"
        plain = self.rounding == "AP_TRN" and self.overflow == "AP_WRAP"
        return f"ap_{sign}fixed<{self.width},{self.integer}{'' if plain else f',{self.rounding},{self.overflow}'}>"

    @property
    def wraps(self) -> bool:
        """Whether a number that does not fit loses its upper bits."""
        return self.overflow.startswith("AP_WRAP")

    def widened(self, low: float, high: float) -> NumberType:
        """The narrowest type with the same step and modes that holds all numbers of this one, and those from low to high."""
        if not (isfinite(low) and isfinite(high)):
            return self
        fraction = self.width - self.integer
        signed, integer = self.signed or low < 0, self.integer + (low < 0 and not self.signed)
        up = floor if self.rounding in ("", Rounding.TRN, Rounding.TRN_ZERO) else ceil
        least, greatest = floor(low * 2.0**fraction), up(high * 2.0**fraction)
        while not -(2 ** (fraction + integer - 1)) * signed <= least <= greatest < 2 ** (fraction + integer - signed):
            integer += 1
        return NumberType(fraction + integer, integer, signed, self.rounding, self.overflow)


@dataclass(frozen=True)
class VariableCounts:
    """The counts of a variable of a layer, on all rows.

    Attributes:
        layer: hls4ml's name.
        variable: "result", "accum", "weight", or the C++ name of another type of the layer, such as exp_table_t; several names
            if they share one typedef. Of a type that hls4ml's C++ writes out, the type's text.
        constant: these are numbers of weights or tables, which are converted once.
        given: values assigned, after each operation.
        wrapped, saturated: those that did not fit.
        zeroed: those that were smaller than the type's step and became 0.
        wrong: wrapped values that differ from unwrapped arithmetic where they leave the variable; a wrap that a later one
            cancels does not count.
        wrong_rows, saturated_rows: the rows with such values.
        least, greatest: of the values, unwrapped.
        low, high: of what the variable would have to hold so that nothing is wrong; infinity and -infinity if its type is
            enough. A constant that wraps is wrong in each row that uses it.
    """

    layer: str
    variable: str
    type: NumberType
    constant: bool
    given: int
    wrapped: int
    saturated: int
    zeroed: int
    wrong: int
    wrong_rows: int
    saturated_rows: int
    least: float
    greatest: float
    low: float
    high: float

    @property
    def written_out(self) -> bool:
        """Whether hls4ml's C++ writes the type out, as for HGQ2's quantisers: no configuration sets it."""
        return self.variable == str(self.type)

    @property
    def needed(self) -> NumberType:
        """The type to write: its own, or one with more integer bits.

        A variable without wrong values needs more if it has only been given wrong values of others, which are right once those
        have their types.
        """
        return self.type.widened(self.low, self.high)


@dataclass(frozen=True)
class Overflows:
    """The counts of a network on `rows` rows, in the order in which the layers are computed."""

    model: str
    rows: int
    variables: tuple[VariableCounts, ...]

    @property
    def wrong(self) -> tuple[VariableCounts, ...]:
        """The variables with values that wrapped and stayed wrong."""
        return tuple(each for each in self.variables if each.wrong_rows)

    @property
    def too_narrow(self) -> tuple[VariableCounts, ...]:
        """The variables that need another type: those of `wrong`, and those behind them that would then wrap."""
        return tuple(each for each in self.variables if each.needed != each.type)

    @property
    def saturated(self) -> tuple[VariableCounts, ...]:
        """The variables with values that saturated."""
        return tuple(each for each in self.variables if each.saturated)

    def faults(self) -> list[str]:
        """A sentence for each variable of too_narrow: layer, variable, share of rows, range, and the type to write."""
        return [self.fault(each) for each in self.too_narrow]

    def fault(self, each: VariableCounts) -> str:
        """The sentence for one of these variables."""
        what = f"layer {each.layer!r}, {each.variable}: {each.type}"
        run = f"{each.low:g} to {each.high:g}"
        if not each.wrong_rows:
            return f"{what} would wrap once the types before it are right, which give it {run}; write {each.needed}"
        share = 100 * each.wrong_rows / self.rows
        return f"{what} wraps in {share:.3g} % of {self.rows:,} rows, where it needs {run}; write {each.needed}"

    def lines(self) -> list[str]:
        """A table for a terminal: a line for each variable that was given a value, and the faults below it."""
        head = (
            "layer",
            "variable",
            "type",
            "values",
            "wrapped",
            "wrong rows",
            "saturated",
            "became 0",
            "least",
            "greatest",
            "needed",
        )
        cells = [
            (
                each.layer, each.variable, str(each.type), f"{each.given:,}", f"{each.wrapped:,}", f"{each.wrong_rows:,}",
                f"{each.saturated:,}", f"{each.zeroed:,}", f"{each.least:.6g}", f"{each.greatest:.6g}",
                "" if each.needed == each.type else str(each.needed),
            )
            for each in self.variables
        ]  # fmt: skip
        return [f"{self.model}: {self.rows:,} rows", *aligned([head, *cells], left=3), *self.faults()]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def aligned(table: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return a table as lines.

    Args:
        left: how many columns from the first on hold text; the last column does too.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left or place == len(line) - 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
