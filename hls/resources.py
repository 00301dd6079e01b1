# SPDX-License-Identifier: Apache-2.0
"""Amounts of what an UltraScale+ part is made of: of a stage, a kernel, a die, a budget. One type, one spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Amounts:
    """Named as a platform's file names them, and as JSON has them; a RAMB18 is half a bram36."""

    lut: float = 0
    ff: float = 0
    dsp: float = 0
    bram36: float = 0
    uram: float = 0

    @classmethod
    def from_json(cls, value: Mapping[str, float]) -> Amounts:
        """As to_json gave it."""
        return cls(**value)

    def to_json(self) -> dict[str, float]:
        """Kind -> amount, every kind."""
        return asdict(self)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))

    def times(self, count: float) -> Amounts:
        return Amounts(*(getattr(self, kind) * count for kind in KINDS))

    def fits(self, budget: Amounts) -> bool:
        return not self.exceeding(budget)

    def exceeding(self, budget: Amounts) -> tuple[str, ...]:
        """The kinds of which there is more than in the budget."""
        return tuple(kind for kind in KINDS if getattr(self, kind) > getattr(budget, kind))

    def fullest(self, budget: Amounts) -> tuple[float, str]:
        """The largest share of the budget, and of which kind; infinite for something of which there is none."""
        return max((_share(getattr(self, kind), getattr(budget, kind)), kind) for kind in KINDS)

    def percent_of(self, whole: Amounts) -> dict[str, float]:
        """Kind -> per cent of the whole, of the kinds that it has."""
        return {kind: round(100 * getattr(self, kind) / getattr(whole, kind), 1) for kind in KINDS if getattr(whole, kind)}

    def texts(self) -> list[str]:
        """The amounts as people read them, in the order of KINDS."""
        return [amount_text(getattr(self, kind)) for kind in KINDS]


NOTHING = Amounts()
KINDS = tuple(field.name for field in fields(Amounts))
#: what people read: the primitives of the part
LABELS = {"lut": "LUT", "ff": "FF", "dsp": "DSP48E2", "bram36": "RAMB36", "uram": "URAM288"}


def amount_text(amount: float) -> str:
    """12,345, or 22.5: half a RAMB36 is a RAMB18."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.1f}"


def _share(taken: float, allowed: float) -> float:
    return taken / allowed if allowed else float("inf") if taken else 0.0
