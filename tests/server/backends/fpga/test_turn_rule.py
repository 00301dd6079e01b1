# SPDX-License-Identifier: Apache-2.0
"""The rule by which models take turns on cards: single decisions, and properties of any load by simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sharing.simulated_turns import Site, wait_beside_floods
from hypersonic.server.backends.fpga.turn_rule import (
    LATELY,
    LOWER,
    OLD,
    OVERDUE,
    CardState,
    Guest,
    Load,
    Wait,
    choose_turn,
    longest_wait_ns,
)

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
    cards = [card(0, guest("a", priority=9))]
    due = [guest("urgent", OVERDUE * R + 9, priority=10), guest("old", 10)]
    assert choose_turn(cards, due, OVERDUE * R + 9) == Load(0, "urgent")
    assert choose_turn(cards, due, OVERDUE * R + 10) == Load(0, "old")


def test_what_has_waited_for_two_residencies_comes_before_any_number_of_rows_but_not_before_a_higher_priority() -> None:
    cards, due = [card(0, guest("a", 900))], [guest("many", 60, rows=10**6), guest("old", 50)]
    assert choose_turn(cards, due, 50 + OLD * R - 1) == Load(0, "many")
    assert choose_turn(cards, due, 50 + OLD * R) == Load(0, "old")
    assert choose_turn(cards, [*due, guest("urgent", 249, priority=1)], 50 + OLD * R) == Load(0, "urgent")


def test_the_residency_of_a_card_counts_only_for_models_that_may_use_it_and_the_shortest_of_theirs_does() -> None:
    """A card with a residency of an hour, which one of the models may use too."""
    hour = card(1, Guest("slow", "slow", BOTH, 0, 10**9, 900))
    due = [guest("many", 60, rows=10**6, cards=frozenset({0})), guest("old", 50, cards=frozenset({0}))]
    for each in (due, [due[0], guest("old", 50)]):
        assert choose_turn([card(0, guest("a", 900)), hour], each, 50 + OLD * R) == Load(0, "old")


SITES = st.integers(1, 6).flatmap(
    lambda models: st.builds(
        Site,
        names=st.just([f"m{number}" for number in range(models)]),
        priorities=st.lists(st.integers(0, 3), min_size=models, max_size=models),
        residencies=st.lists(st.integers(1, 40), min_size=models, max_size=models),
        rows=st.lists(st.integers(1, 9), min_size=models, max_size=models),
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
    site.run(demand, 7)
    for index in range(site.cards + 1):
        turns = [(at, name) for at, card_index, name in site.loads if card_index == index]
        for (begin, name), (end, _) in pairwise(turns):
            assert end - begin >= site.load_ns + site.residencies[site.names.index(name)]
        assert not (index == site.cards and turns)


@settings(max_examples=100)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 40), st.integers(0, 20), st.integers(1, 400), st.integers(1, 5))
def test_a_single_request_beside_floods_waits_no_longer_than_is_promised(
    models: int, cards: int, residency: int, load: int, asked: int, step: int
) -> None:
    """A step is as long as a decision is late: at the request, and after each turn."""
    waited = wait_beside_floods(models, cards, residency, load, asked, step)
    assert waited <= longest_wait_ns(residency, load + step, models, cards) + step


@settings(max_examples=60)
@given(SITES, st.booleans())
def test_no_model_waits_longer_than_is_promised_whatever_the_priorities(site: Site, equal: bool) -> None:
    step, models = 5, len(site.names)
    bound = longest_wait_ns(max(site.residencies), site.load_ns + step, models, site.cards, outranked=not equal) + step
    run = replace(site, priorities=[0] * models) if equal else site
    run.run([frozenset(site.names)] * (3 * bound // step), step)
    assert set(run.longest) == set(site.names)
    assert max(run.longest.values()) + site.load_ns <= bound
