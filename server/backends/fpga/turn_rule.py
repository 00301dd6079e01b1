# SPDX-License-Identifier: Apache-2.0
"""The rule by which models take turns on cards: which card is loaded for which model, and when. A pure function.

A model is due when requests wait for it and it is on no card. The rule looks at the due models in this order: those that have
waited for more than OVERDUE times the longest minimum residency, the oldest first; then by priority; then by the number of rows
that wait for models of the same xclbin; then by waiting time. The first that may have a card gets it. It may have

- a free card;
- a card whose models have had their minimum residency (the longest of them), and for each of which one of these is true: it
  is idle (no request waits, and none began within 1/LATELY of the residency); its priority is lower; the due model has waited
  as long as the residency, or LOWER times as long if the model has a higher priority.

Of several such cards it gets the one whose models were used least recently, if possible one without waiting requests.
A card with a resident model is never taken. So the models of a card stay for their residency, and two busy models of equal
priority are swapped at most once per residency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

#: a due model that has waited this many residencies comes before all that have not, whatever its priority
OVERDUE = 8
#: how many residencies a due model waits for busy models of a higher priority
LOWER = 4
#: a model counts as idle when 1/LATELY of the residency has passed since its last run began
LATELY = 8


class Guest(NamedTuple):
    """A model that takes turns.

    Attributes:
        xclbin: the identity of its own xclbin.
        cards: those that it may use.
        priority: highest first.
        residency_ns: the shortest time that it stays on a card.
        since_ns: when its oldest waiting request arrived, 0 = none waits.
        rows: the number of rows that wait.
        used_ns: when its last run began.
    """

    name: str
    xclbin: str
    cards: frozenset[int]
    priority: int = 0
    residency_ns: int = 0
    since_ns: int = 0
    rows: int = 0
    used_ns: int = 0


class CardState(NamedTuple):
    """A card.

    Attributes:
        guests: the models on it, none for a free card.
        loaded_ns: when its xclbin was loaded.
        kept: it must not be loaded now, for example because a resident model is on it or its xclbin is being replaced.
    """

    number: int
    guests: tuple[Guest, ...] = ()
    loaded_ns: int = 0
    kept: bool = False

    @property
    def residency_ns(self) -> int:
        """The shortest time that its models stay: the longest of their residencies."""
        return max((guest.residency_ns for guest in self.guests), default=0)


class Load(NamedTuple):
    """Load the model's xclbin to the card now."""

    card: int
    guest: str


class Wait(NamedTuple):
    """Load nothing before this time, in monotonic ns; 0 = before something changes."""

    until_ns: int


def choose_turn(cards: Sequence[CardState], away: Iterable[Guest], now_ns: int) -> Load | Wait:
    """Decide the next load.

    Args:
        away: the models that are on no card.
    """
    due = [guest for guest in away if guest.since_ns]
    longest_ns = max((guest.residency_ns for guest in (*due, *(on for card in cards for on in card.guests))), default=0)
    times: list[int] = []
    for guest in _in_order(due, now_ns, longest_ns):
        possible = [(card, _allowed_ns(card, guest)) for card in cards if not card.kept and card.number in guest.cards]
        ready = [card for card, at_ns in possible if at_ns <= now_ns]
        if ready:
            return Load(min(ready, key=_least_missed).number, guest.name)
        times += (at_ns for _, at_ns in possible)
    return Wait(min(times, default=0))


def _in_order(due: Sequence[Guest], now_ns: int, longest_ns: int) -> Iterator[Guest]:
    overdue_ns = now_ns - OVERDUE * longest_ns
    rows: dict[str, int] = {}
    for guest in due:
        rows[guest.xclbin] = rows.get(guest.xclbin, 0) + guest.rows

    def place(guest: Guest) -> tuple[int, int, int, int]:
        if guest.since_ns < overdue_ns:
            return 0, 0, 0, guest.since_ns
        return 1, -guest.priority, -rows[guest.xclbin], guest.since_ns

    return iter(sorted(due, key=place))


def _allowed_ns(card: CardState, guest: Guest) -> int:
    """Return the earliest time at which the guest may have the card, given the current state."""
    residency_ns = card.residency_ns
    allowed_ns = card.loaded_ns + residency_ns if card.guests else 0
    for other in card.guests:
        if other.priority >= guest.priority:
            patience_ns = guest.since_ns + residency_ns * (LOWER if other.priority > guest.priority else 1)
            idle_ns = other.used_ns + residency_ns // LATELY if other.used_ns else 0
            allowed_ns = max(allowed_ns, patience_ns if other.since_ns else min(idle_ns, patience_ns))
    return allowed_ns


def _least_missed(card: CardState) -> tuple[bool, bool, int, int]:
    waited_for = any(guest.since_ns for guest in card.guests)
    return bool(card.guests), waited_for, max((guest.used_ns for guest in card.guests), default=0), card.number
