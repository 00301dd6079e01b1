# SPDX-License-Identifier: Apache-2.0
"""Models that take turns in simulated time, by the rule of the server (server/backends/fpga/turn_rule.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypersonic.server.backends.fpga.turn_rule import CardState, Guest, Load, choose_turn

#: the rows that wait for a flooding model, beside the one row of a single request
_FLOOD_ROWS = 1000


@dataclass
class Site:
    """Cards, and models with an xclbin each, in simulated time.

    Attributes:
        names: of the models; the other lists have an entry for each.
        rows: that wait for a model while it wants to run.
        resident: there is one more card, with a resident model.
        waits: since when each model that wants to run waits.
        on: card -> the model on it.
        loaded: card -> when its last load ended.
        loads: when each load began, its card and its model.
        longest: the longest time that a model waited until its load began, or waits at the end.
    """

    names: list[str]
    priorities: list[int]
    residencies: list[int]
    rows: list[int]
    cards: int
    load_ns: int
    resident: bool = False
    waits: dict[str, int] = field(default_factory=dict)
    on: dict[int, str] = field(default_factory=dict)
    loaded: dict[int, int] = field(default_factory=dict)
    loads: list[tuple[int, int, str]] = field(default_factory=list)
    longest: dict[str, int] = field(default_factory=dict)

    def run(self, demand: Sequence[frozenset[str]], step_ns: int) -> None:
        """Simulate steps.

        Args:
            demand: the models that want to run during each step.
        """
        now_ns = 1
        for wanted in demand:
            self.advance(wanted, now_ns)
            now_ns += step_ns
        for away in self._away():
            if away.since_ns:
                self.longest[away.name] = max(self.longest.get(away.name, 0), now_ns - away.since_ns)

    def advance(self, wanted: frozenset[str], now_ns: int) -> None:
        """Begin the loads of one moment, with `wanted` as the models that want to run."""
        self.waits = {name: self.waits.get(name, now_ns) for name in wanted}
        self.waits |= {name: now_ns for index, name in self.on.items() if name in wanted and self.loaded[index] <= now_ns}
        while isinstance(choice := choose_turn(self._states(), self._away(), now_ns), Load):
            self.longest[choice.guest] = max(self.longest.get(choice.guest, 0), now_ns - self.waits[choice.guest])
            self.on[choice.card] = choice.guest
            self.loaded[choice.card] = now_ns + self.load_ns
            self.loads.append((now_ns, choice.card, choice.guest))

    def _guest(self, name: str) -> Guest:
        number, allowed = self.names.index(name), frozenset(range(self.cards))
        since_ns = self.waits.get(name, 0)
        return Guest(
            name,
            name,
            allowed,
            self.priorities[number],
            self.residencies[number],
            since_ns,
            self.rows[number] if since_ns else 0,
        )

    def _states(self) -> list[CardState]:
        on = {index: (self._guest(name),) for index, name in self.on.items()}
        states = [CardState(index, on.get(index, ()), self.loaded.get(index, 0)) for index in range(self.cards)]
        return [*states, CardState(self.cards, kept=True)] if self.resident else states

    def _away(self) -> list[Guest]:
        return [self._guest(name) for name in self.names if name not in self.on.values()]


def wait_beside_floods(models: int, cards: int, residency_ns: int, load_ns: int, asked_ns: int, step_ns: int) -> int:
    """Return how long one request waits until its model is on a card, while all other models always want to run.

    Args:
        models: the number of models, each with an xclbin of its own.
        asked_ns: when the request arrives.
    """
    names = [f"m{number}" for number in range(models)]
    floods, single = frozenset(names[1:]), frozenset(names)
    rows = [1, *(_FLOOD_ROWS + number for number in range(1, models))]
    site = Site(names, [0] * models, [residency_ns] * models, rows, cards, load_ns)
    now_ns = 1
    while names[0] not in site.on.values():
        site.advance(single if now_ns >= asked_ns else floods, now_ns)
        now_ns += step_ns
    return site.longest[names[0]] + load_ns
