# SPDX-License-Identifier: Apache-2.0
"""The rule by which models take turns on cards: which card is loaded for which model, and when. A pure function.

A model is due when requests wait for it and it is on no card. The rule looks at the due models in this order: those that have
waited for OVERDUE residencies, the oldest first; then by priority; of one priority, those that have waited for OLD residencies,
the oldest first; then by the number of rows that wait for models of the same xclbin; then by waiting time. A due model's
residency here is that of the card that it may have soonest: the shortest of those on the cards that it may use. The first that
may have a card gets it. It may have

- a free card;
- a card whose models have had their minimum residency (the longest of them), and for each of which one of these is true: it
  is idle (no request waits, and none began within 1/LATELY of the residency); its priority is lower; the due model has waited
  as long as the residency, or LOWER times as long if the model has a higher priority.

Of several such cards it gets the one whose models were used least recently, if possible one without waiting requests.
A card with a resident model is never taken. So the models of a card stay for their residency, and two busy models of equal
priority are swapped at most once per residency. How long a model waits at most: longest_wait_ns().
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: a due model that has waited this many residencies comes before all that have not, whatever its priority
OVERDUE = 8
#: a due model that has waited this many residencies comes before those of its priority that have not, however many rows wait
OLD = 2
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
        since_ns: when its oldest waiting request arrived, or when it left its last card, if that was later; 0 = none waits.
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
    possible = {guest: [card for card in cards if not card.kept and card.number in guest.cards] for guest in due}
    times: list[int] = []
    for guest in _in_order(possible, now_ns):
        allowed = [(card, _allowed_ns(card, guest)) for card in possible[guest]]
        ready = [card for card, at_ns in allowed if at_ns <= now_ns]
        if ready:
            return Load(min(ready, key=_least_missed).number, guest.name)
        times += (at_ns for _, at_ns in allowed)
    return Wait(min(times, default=0))


def longest_wait_ns(residency_ns: int, load_ns: int, xclbins: int, cards: int, *, outranked: bool = False) -> int:
    """Return how long a model waits at most until its xclbin is on a card.

    It waits for OLD residencies, or for OVERDUE if it is outranked; for the turns that have then begun; for one turn of each
    xclbin that has waited longer; and for its own load. Those that have waited longer are at most the xclbins that are neither
    its own nor on a card. The cards take their turns at the same time.

    Args:
        residency_ns: the longest of the models that may use the cards.
        load_ns: how long a change takes: the runs in flight end, and the xclbin is loaded.
        xclbins: the number of xclbins that take turns, its own included.
        cards: the number of cards, which all of them may use.
        outranked: another model has a higher priority.
    """
    longer = max(0, xclbins - 1 - cards)
    return (OVERDUE if outranked else OLD) * residency_ns + (cards + longer) * (residency_ns + load_ns) // cards + load_ns


def _in_order(possible: Mapping[Guest, Sequence[CardState]], now_ns: int) -> list[Guest]:
    """Return the due models in the order in which they are considered.

    Args:
        possible: the cards that each may have.
    """
    rows: dict[str, int] = {}
    for guest in possible:
        rows[guest.xclbin] = rows.get(guest.xclbin, 0) + guest.rows

    def place(guest: Guest) -> tuple[int, ...]:
        waited_ns = now_ns - guest.since_ns
        residency_ns = min((card.residency_ns for card in possible[guest] if card.guests), default=guest.residency_ns)
        if waited_ns >= OVERDUE * residency_ns:
            return 0, guest.since_ns
        if waited_ns >= OLD * residency_ns:
            return 1, -guest.priority, 0, guest.since_ns
        return 1, -guest.priority, 1, -rows[guest.xclbin], guest.since_ns

    return sorted(possible, key=place)


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
