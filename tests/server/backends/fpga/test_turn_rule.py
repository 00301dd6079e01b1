# SPDX-License-Identifier: Apache-2.0
"""The rule by which models take turns on cards: single decisions, and properties of any load by simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.server.backends.fpga.turn_rule import LATELY, LOWER, OVERDUE, CardState, Guest, Load, Wait, choose_turn

BOTH = frozenset({0, 1})
R = 100


def guest(name: str, since: int = 0, *, priority: int = 0, rows: int = 1, cards: frozenset[int] = BOTH, used: int = 0) -> Guest:
    return Guest(name, name, cards, priority, R, since, rows, used)


def card(index: int, *guests: Guest, loaded: int = 1, kept: bool = False) -> CardState:
    return CardState(index, guests, loaded, kept)


def test_nothing_is_loaded_while_nothing_waits() -> None:
    assert choose_turn([card(0), card(1, guest("a", 50))], [guest("b")], 10**6) == Wait(0)


def test_a_due_model_gets_a_free_card_at_once() -> None:
    assert choose_turn([card(0, guest("a")), card(1)], [guest("b", 5)], 6) == Load(1, "b")


def test_an_idle_card_is_taken_after_its_residency_and_not_before() -> None:
    cards = [card(0, guest("a"), loaded=10)]
    assert choose_turn(cards, [guest("b", 20)], 109) == Wait(110)
    assert choose_turn(cards, [guest("b", 20)], 110) == Load(0, "b")


def test_a_busy_card_is_taken_once_the_due_model_has_waited_as_long_as_the_residency() -> None:
    cards = [card(0, guest("a", 900), loaded=10)]
    assert choose_turn(cards, [guest("b", 850)], 949) == Wait(950)
    assert choose_turn(cards, [guest("b", 850)], 950) == Load(0, "b")


def test_a_higher_priority_does_not_wait_for_a_busy_card_and_a_lower_one_waits_longer() -> None:
    cards = [card(0, guest("a", 900, priority=5), loaded=10)]
    assert choose_turn(cards, [guest("b", 850, priority=6)], 851) == Load(0, "b")
    assert choose_turn(cards, [guest("b", 850, priority=4)], 851) == Wait(850 + LOWER * R)


def test_a_resident_models_card_is_never_taken() -> None:
    assert choose_turn([card(0, kept=True), card(1, guest("a"), kept=True)], [guest("b", 1, priority=9)], 10**9) == Wait(0)


def test_a_model_gets_only_the_cards_that_it_may_have() -> None:
    assert choose_turn([card(0), card(1, kept=True)], [guest("b", 1, cards=frozenset({1}))], 10**9) == Wait(0)


def test_a_card_that_was_used_lately_is_not_idle() -> None:
    cards = [card(0, guest("a", used=900))]
    assert choose_turn(cards, [guest("b", 890)], 901) == Wait(900 + R // LATELY)
    assert choose_turn(cards, [guest("b", 810)], 901) == Wait(810 + R)
    assert choose_turn(cards, [guest("b", 890)], 912) == Load(0, "b")


def test_an_idle_card_is_taken_before_a_busy_one_and_then_the_one_that_was_used_least_recently() -> None:
    busy, idle = card(0, guest("a", 900, used=2)), card(1, guest("b", used=800))
    assert choose_turn([busy, idle], [guest("c", 100)], 1000) == Load(1, "c")
    cards = [card(0, guest("a", used=9)), card(1, guest("b", used=8))]
    assert choose_turn(cards, [guest("c", 100)], 1000) == Load(1, "c")


def test_priority_comes_first_then_the_rows_that_wait_for_one_xclbin_then_age() -> None:
    due = [guest("old", 1), guest("many", 50, rows=9), guest("first", 60, priority=1)]
    for expected in ("first", "many", "old"):
        choice = choose_turn([card(0)], due, 70)
        assert choice == Load(0, expected)
        due = [each for each in due if each.name != expected]
    together = [Guest(name, "x", BOTH, 0, R, 30, 4) for name in ("one", "two")]
    assert choose_turn([card(0)], [guest("many", 50, rows=7), *together], 70) == Load(0, "one")


def test_what_is_overdue_comes_before_any_priority() -> None:
    now = OVERDUE * R + 10
    due = [guest("urgent", now - 1, priority=9), guest("old", 5)]
    assert choose_turn([card(0)], due, now) == Load(0, "old")


@dataclass
class Site:
    """Cards and models in simulated time. Saturated models always have requests waiting."""

    names: list[str]
    priorities: list[int]
    residencies: list[int]
    cards: int
    load_ns: int
    resident: bool
    waits: dict[str, int] = field(default_factory=dict)
    on: dict[int, str] = field(default_factory=dict)
    loaded: dict[int, int] = field(default_factory=dict)
    loads: list[tuple[int, int, str]] = field(default_factory=list)
    longest: dict[str, int] = field(default_factory=dict)

    def guest(self, name: str) -> Guest:
        number = self.names.index(name)
        allowed = frozenset(range(self.cards))
        return Guest(name, name, allowed, self.priorities[number], self.residencies[number], self.waits.get(name, 0), 1)

    def states(self) -> list[CardState]:
        on = {index: (self.guest(name),) for index, name in self.on.items()}
        states = [CardState(index, on.get(index, ()), self.loaded.get(index, 0)) for index in range(self.cards)]
        return [*states, CardState(self.cards, kept=True)] if self.resident else states

    def away(self) -> list[Guest]:
        return [self.guest(name) for name in self.names if name not in self.on.values()]

    def run(self, demand: list[frozenset[str]], step: int) -> None:
        """Each entry of `demand` is the models that want to run during one step."""
        now = 1
        for wanted in demand:
            self.waits = {name: self.waits.get(name, now) for name in wanted}
            self.waits |= {name: now for index, name in self.on.items() if name in wanted and self.loaded[index] <= now}
            while isinstance(choice := choose_turn(self.states(), self.away(), now), Load):
                self.longest[choice.guest] = max(self.longest.get(choice.guest, 0), now - self.waits[choice.guest])
                self.on[choice.card] = choice.guest
                self.loaded[choice.card] = now + self.load_ns
                self.loads.append((now, choice.card, choice.guest))
            now += step
        for away in self.away():
            if away.since_ns:
                self.longest[away.name] = max(self.longest.get(away.name, 0), now - away.since_ns)


SITES = st.integers(1, 6).flatmap(
    lambda models: st.builds(
        Site,
        names=st.just([f"m{number}" for number in range(models)]),
        priorities=st.lists(st.integers(0, 3), min_size=models, max_size=models),
        residencies=st.lists(st.integers(1, 40), min_size=models, max_size=models),
        cards=st.integers(1, 3),
        load_ns=st.integers(0, 20),
        resident=st.booleans(),
    )
)


@settings(max_examples=40)
@given(SITES, st.data())
def test_no_card_changes_before_the_residency_is_over_and_none_of_a_resident_model_does(
    site: Site, data: st.DataObject
) -> None:
    demand = data.draw(st.lists(st.frozensets(st.sampled_from(site.names)), max_size=150))
    site.run(demand, step=7)
    for index in range(site.cards + 1):
        turns = [(at, name) for at, card_index, name in site.loads if card_index == index]
        for (begin, name), (end, _) in pairwise(turns):
            assert end - begin >= site.load_ns + site.residencies[site.names.index(name)]
        assert not (index == site.cards and turns)


@settings(max_examples=40)
@given(SITES)
def test_every_model_that_keeps_waiting_is_loaded_within_a_bound(site: Site) -> None:
    step, longest = 5, max(site.residencies)
    turn = LOWER * longest + site.load_ns + step
    bound = OVERDUE * longest + turn * (len(site.names) + 1)
    site.run([frozenset(site.names)] * (3 * bound // step), step)
    assert set(site.longest) == set(site.names)
    assert max(site.longest.values()) <= bound
