# SPDX-License-Identifier: Apache-2.0
"""The cards of a server whose models take turns: which xclbin is on which card, and its loads."""

from __future__ import annotations

from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.station import Station
from hypersonic.plan.farm.errors import FarmError
from hypersonic.plan.farm.machines import Server
from hypersonic.plan.farm.turns import CardState, Guest, Load, Turns


class Card:
    """A card.

    Attributes:
        xclbin: on it, or being loaded.
        loaded_s: when it was loaded.
        changing: the old models leave it, or it is being loaded.
        runs: that still run, of the models that leave.
    """

    __slots__ = ("changing", "loaded_s", "runs", "xclbin")

    def __init__(self, xclbin: str) -> None:
        self.xclbin, self.loaded_s, self.changing, self.runs = xclbin, 0.0, False, 0


class Table:
    """The turns of a server. At the start each card has one of the first xclbins."""

    def __init__(self, server: Server, turns: Turns, stations: dict[str, Station], clock: Clock) -> None:
        if turns.rule is None:
            raise FarmError(
                "models take turns and turns.rule is None, expected the rule of the turns; pass the server's own one"
            )
        self._rule, self._residency_ns, self._clock = turns.rule, round(turns.residency_s * 1e9), clock
        self._stations = {name: [stations[each.model] for each in hosted] for name, hosted in server.xclbins.items()}
        self._xclbin = {each.model: name for name, hosted in server.xclbins.items() for each in hosted}
        self._load_s = {name: max(each.load_s for each in hosted) for name, hosted in server.xclbins.items()}
        self._by_model = stations
        self._cards = [Card(name) for name in list(self._stations)[: server.cards]]
        self._due_s = 0.0
        for station in stations.values():
            station.take_turns(changed=self._decide, left=self._run_ended)
        for index, card in enumerate(self._cards):
            for station in self._stations[card.xclbin]:
                station.restore(index)

    def _decide(self, _: object = None) -> None:
        """Begin the loads that the rule chooses now."""
        while True:
            now_ns = self._ns(self._clock.now)
            on = {card.xclbin for card in self._cards}
            away = [self._guest(model) for model, name in self._xclbin.items() if name not in on]
            choice = self._rule([self._state(index) for index in range(len(self._cards))], away, now_ns)
            if not isinstance(choice, Load):
                if 0 < choice.until_ns <= now_ns:
                    raise FarmError(
                        f"the rule of turns waits until {choice.until_ns} ns at {now_ns} ns; expected a later time, 0 or a Load"
                    )
                due_s = choice.until_ns / 1e9
                if choice.until_ns and not self._clock.now < self._due_s <= due_s:
                    self._due_s = due_s
                    self._clock.at(due_s, self._due, due_s)
                return
            self._change(choice.card, self._xclbin[choice.guest])

    def _due(self, due_s: float) -> None:
        if due_s == self._due_s:
            self._due_s = 0.0
            self._decide()

    def _change(self, index: int, xclbin: str) -> None:
        card = self._cards[index]
        leaving, card.xclbin, card.changing = self._stations[card.xclbin], xclbin, True
        card.runs = sum(station.leave(index) for station in leaving)
        if not card.runs:
            self._clock.at(self._clock.now + self._load_s[xclbin], self._loaded, index)

    def _run_ended(self, index: int) -> None:
        """A run of a model that leaves the card has ended."""
        card = self._cards[index]
        card.runs -= 1
        if not card.runs:
            self._clock.at(self._clock.now + self._load_s[card.xclbin], self._loaded, index)

    def _loaded(self, index: int) -> None:
        card = self._cards[index]
        card.changing, card.loaded_s = False, self._clock.now
        for station in self._stations[card.xclbin]:
            station.restore(index)
        self._decide()

    def _state(self, index: int) -> CardState:
        card = self._cards[index]
        guests = (
            () if card.changing else tuple(self._guest(model) for model, name in self._xclbin.items() if name == card.xclbin)
        )
        return CardState(index, guests, self._ns(card.loaded_s), card.changing)

    def _guest(self, model: str) -> Guest:
        station, cards = self._by_model[model], frozenset(range(len(self._cards)))
        since_s = station.waits_since_s
        return Guest(
            model, self._xclbin[model], cards, 0, self._residency_ns,
            0 if since_s is None else self._ns(since_s), station.queue.waiting, self._ns(station.used_s),
        )  # fmt: skip

    @staticmethod
    def _ns(time_s: float) -> int:
        """The time in ns; 0 would mean that there is none."""
        return max(1, round(time_s * 1e9))
