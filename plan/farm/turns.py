# SPDX-License-Identifier: Apache-2.0
"""Models that take turns on the cards of a server, as a protocol of the rule that decides.

`plan` does not import `server`, so the rule is handed in. The server's own one is `choose_turn` of
server/backends/fpga/turn_rule.py; `hypersonic plan` passes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hypersonic.plan.farm.errors import check_positive


class Guest(NamedTuple):
    """A model that takes turns.

    Attributes:
        xclbin: the identity of its xclbin.
        cards: those that it may use.
        priority: highest first.
        residency_ns: the shortest time that it stays on a card.
        since_ns: since when its oldest waiting request waits for a card, 0 = none waits.
        rows: that wait.
        used_ns: when its last run began.
    """

    name: str
    xclbin: str
    cards: frozenset[int]
    priority: int
    residency_ns: int
    since_ns: int
    rows: int
    used_ns: int


class CardState(NamedTuple):
    """A card.

    Attributes:
        guests: the models on it.
        kept: it is being loaded.
    """

    number: int
    guests: tuple[Guest, ...]
    loaded_ns: int
    kept: bool


class Load(NamedTuple):
    """Load the xclbin of the model to the card now."""

    card: int
    guest: str


class Later(NamedTuple):
    """Load nothing before this simulated time in ns; 0 = before something changes."""

    until_ns: int


class TurnRule(Protocol):
    """A pure function from the cards and the models that are on none to the next load."""

    def __call__(self, cards: Sequence[CardState], away: Sequence[Guest], now_ns: int, /) -> Load | Later:
        """Return the next load, or the time to ask again."""
        ...


@dataclass(frozen=True)
class Turns:
    """The models of a server take turns on its cards, one xclbin on a card at a time, and an xclbin on one card at a time.

    Attributes:
        rule: None = the farm is only computed, and not simulated.
        residency_s: the shortest time that models stay on a card.
    """

    rule: TurnRule | None
    residency_s: float = 5.0

    def __post_init__(self) -> None:
        check_positive(residency_s=self.residency_s)

    def times_s(self, xclbins: int, cards: int, load_s: float) -> tuple[float, float]:
        """Return the length of a round in which all xclbins have had a turn, and how long each is on no card in it.

        It holds while all models have requests. A card changes after a load and a residency; and a model takes a busy card only
        when it has waited for a residency.

        Args:
            load_s: the mean load.
        """
        if xclbins <= cards:
            return math.inf, 0.0
        away = xclbins - cards
        turn_s = max((self.residency_s + load_s) / cards, self.residency_s / away)
        return xclbins * turn_s, away * turn_s + load_s
