# SPDX-License-Identifier: Apache-2.0
"""Amounts of the resources of an UltraScale+ part, used by a stage or kernel, or offered by a die or budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import ceil


@dataclass(frozen=True)
class Amounts:
    """An amount of each kind of resource. The names are those of platform files and of JSON.

    Attributes:
        lut, ff, dsp: LUTs, flip-flops, DSP48E2 slices.
        bram36: RAMB36 blocks; a RAMB18 is half of one.
        uram: URAM288 blocks.
    """

    lut: float = 0
    ff: float = 0
    dsp: float = 0
    bram36: float = 0
    uram: float = 0

    @classmethod
    def from_json(cls, value: Mapping[str, float]) -> Amounts:
        """Read what to_json returned."""
        return cls(**value)

    def to_json(self) -> dict[str, float]:
        """Return every kind's amount, by the kind's name."""
        return asdict(self)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))

    def times(self, count: float) -> Amounts:
        """Return `count` times these amounts."""
        return Amounts(*(getattr(self, kind) * count for kind in KINDS))

    def fits(self, budget: Amounts) -> bool:
        """Return whether no kind exceeds the budget."""
        return not self.exceeding(budget)

    def exceeding(self, budget: Amounts) -> tuple[str, ...]:
        """Return the names of the kinds that exceed the budget."""
        return tuple(kind for kind in KINDS if getattr(self, kind) > getattr(budget, kind))

    def fullest(self, budget: Amounts) -> tuple[float, str]:
        """Return the largest share of the budget (1 is all of it) and its kind.

        A kind that is needed and of which the budget has nothing counts as infinite.
        """
        return max((_share(getattr(self, kind), getattr(budget, kind)), kind) for kind in KINDS)

    def percent_of(self, whole: Amounts) -> dict[str, float]:
        """Return the percentage of `whole`, to one decimal, by kind, for the kinds of which `whole` has any."""
        return {kind: round(100 * getattr(self, kind) / getattr(whole, kind), 1) for kind in KINDS if getattr(whole, kind)}

    def texts(self) -> list[str]:
        """Return the amounts formatted for people, in the order of KINDS."""
        return [self.text(kind) for kind in KINDS]

    def text(self, kind: str) -> str:
        """Return an amount formatted for people: a whole number, but for the halves of RAMB36 (see amount_text)."""
        amount = getattr(self, kind)
        return amount_text(amount if kind == "bram36" else ceil(amount))


NOTHING = Amounts()
KINDS = tuple(field.name for field in fields(Amounts))
#: the kinds' names in texts for people: the primitives of the part
LABELS = {"lut": "LUT", "ff": "FF", "dsp": "DSP48E2", "bram36": "RAMB36", "uram": "URAM288"}
#: the key of the reason in a manifest's report.resources, if there is no estimate
NOT_ESTIMATED = "not_estimated"


def amount_text(amount: float) -> str:
    """Format an amount: 12,345, or 22.5 where it has a half (a RAMB18 is half a RAMB36)."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.1f}"


def _share(taken: float, allowed: float) -> float:
    return taken / allowed if allowed else float("inf") if taken else 0.0
