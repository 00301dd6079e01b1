# SPDX-License-Identifier: Apache-2.0
"""How far answers are from the trained model's: the one definition for the gate, reports, tuning and `hypersonic new`.

Answers are *far*

- if they are numbers: if the rms of the difference is more than 5 % of their spread, or if more than 0.1 % of the rows are off
  by more than 5 % of their span;
- if they are probabilities (behind a softmax): if a difference is more than 0.05, or more than the error of hls4ml's tables
  where that is larger, but not above 0.5: tables that may give any probability excuse none;
- if they name a class (behind an argmax): if more than 1 % of the rows have another class.

Spread is the standard deviation of the trained model's answers, span their largest minus their smallest; for answers that are
all the same, both are their magnitude. A difference that is not a number is far.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

#: a difference beyond this share of the answers' own spread, or of their span, is far
FAR = 0.05

#: the share of the trained model's figure of merit by which that of the fixed-point network may be worse
WORSE = 0.1

#: the share of rows that may be off by more than FAR of the span
FEW_ROWS = 0.001

#: the largest difference of probabilities that is not far
PROBABILITY = 0.05

#: the error of tables beyond which they do not excuse a difference
_USELESS = 0.5

#: the share of rows that may have another class
OTHER_CLASS = 0.01


class Kind(StrEnum):
    """The kind of an output's answers."""

    NUMBERS = "numbers"
    PROBABILITIES = "probabilities"
    CLASSES = "classes"


@dataclass(frozen=True)
class Judged:
    """How answers are judged.

    Attributes:
        table_error: how far probabilities may be off because of hls4ml's tables.
        classes: the size of the last axis; 0 for all elements of a row.
    """

    kind: Kind = Kind.NUMBERS
    table_error: float = 0.0
    classes: int = 0


NUMBERS = Judged()


@dataclass(frozen=True)
class Difference:
    """How far the answers of one output are from the trained model's.

    Attributes:
        rms: of the difference.
        worst, mean: of its magnitude.
        row: the first with the worst.
        got, wanted: the numbers there.
        spread, span: of the trained model's answers (see the module).
        off: the share of rows that are off by more than FAR of the span.
        other_class: the share of rows in which the largest element of a set of classes is another one.
    """

    rms: float
    worst: float
    mean: float
    row: int
    got: float
    wanted: float
    spread: float
    span: float
    off: float
    other_class: float

    @property
    def share(self) -> float:
        """The rms over the spread; infinity where there is a difference and no spread."""
        return relative(self.rms, self.spread)

    def far_because(self, judged: Judged = NUMBERS) -> str:
        """Return why the answers are far, as a clause; "" if they are not."""
        if judged.kind is Kind.CLASSES:
            too_many = not self.other_class <= OTHER_CLASS
            return f"{percent(self.other_class)} of the rows have another class" if too_many else ""
        if judged.kind is Kind.PROBABILITIES:
            most = max(PROBABILITY, judged.table_error if judged.table_error <= _USELESS else 0.0)
            return f"a probability is off by {self.worst:.3g}, more than {most:.3g}" if not self.worst <= most else ""
        if not self.share <= FAR:
            return f"the rms difference is {percent(self.share)} of the answers' spread"
        if self.off > FEW_ROWS:
            return f"{percent(self.off)} of the rows are off by more than {percent(FAR)} of the answers' span"
        return ""

    def text(self, judged: Judged = NUMBERS) -> str:
        """Return a clause with the verdict and the figures that lead to it."""
        verdict = "far from" if self.far_because(judged) else "close to"
        return (
            f"{verdict} the trained model: rms difference {percent(self.share)} of the answers' spread, worst difference "
            f"{self.worst:.4g}"
        )


def difference(got: NDArray[np.float64], wanted: NDArray[np.float64], classes: int = 0) -> Difference:
    """Return how far `got` is from the trained model's `wanted`.

    Both: (rows, elements), in the same units.

    Args:
        classes: as in Judged.
    """
    off = np.abs(np.asarray(got, np.float64) - wanted)
    rows = off.max(axis=1)
    row = int(np.where(np.isnan(rows), np.inf, rows).argmax())
    place = int(np.where(np.isnan(off[row]), np.inf, off[row]).argmax())
    least, greatest = float(wanted.min()), float(wanted.max())
    magnitude = max(abs(least), abs(greatest))
    span = greatest - least or magnitude
    sets = (len(wanted), -1, classes or wanted.shape[1])
    other = (got.reshape(sets).argmax(axis=2) != wanted.reshape(sets).argmax(axis=2)).any(axis=1)
    return Difference(
        rms=float(np.sqrt(np.mean(off**2))),
        worst=float(rows.max()),
        mean=float(off.mean()),
        row=row,
        got=float(got[row, place]),
        wanted=float(wanted[row, place]),
        spread=float(np.std(wanted)) or magnitude,
        span=span,
        off=float(np.mean(~(rows <= FAR * span))),
        other_class=float(np.mean(other)),
    )


def merit_warning(name: str, got: float | None, trained: float | None, *, larger_is_better: bool) -> str:
    """Return a sentence if a figure of merit is worse than the trained model's by more than WORSE of it; "" otherwise."""
    if got is None or trained is None:
        return ""
    worse = trained - got if larger_is_better else got - trained
    if worse <= WORSE * abs(trained):
        return ""
    share = percent(relative(worse, abs(trained)))
    return f"the fixed-point network is worse than the trained one by {share}: {name} {got:.4g} instead of {trained:.4g}"


def relative(rms: float, spread: float) -> float:
    """Return a difference's rms over the answers' spread; infinity where there is a difference and no spread."""
    return rms / spread if spread else 0.0 if rms == 0 else float("inf")


def percent(share: float) -> str:
    """Return a share as a text in per cent."""
    if share >= 100:
        return "> 9999 %"
    return f"{100 * share:.2g} %" if not share >= 0.1 else f"{100 * share:.0f} %"
