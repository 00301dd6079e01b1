# SPDX-License-Identifier: Apache-2.0
"""Since when a model waits for a card: requests that are given up do not end the wait, a stay on a card does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.backends.fpga.card_wait import CardWait
from hypersonic.server.backends.fpga.turn_rule import OVERDUE

R = 100


def test_a_model_waits_since_its_oldest_request_or_since_it_left_its_card() -> None:
    wait = CardWait(R)
    wait.ask(1000)
    assert (wait.due_ns(1000), wait.due_ns(0)) == (1000, 0)
    wait.arrive(1100)
    wait.leave(1300, used_ns=1150)
    assert wait.due_ns(1000) == 1300


@given(st.lists(st.integers(1, OVERDUE * R), min_size=1, max_size=30))
def test_requests_that_are_given_up_one_after_another_are_one_wait(gaps: list[int]) -> None:
    """However short their deadlines are, and also if none waits in between."""
    wait = CardWait(R)
    wait.ask(now := 1000)
    for gap in gaps:
        now += gap
        wait.ask(now)
        assert wait.due_ns(now) == 1000
        assert wait.since_ns(now) == now, "the metrics have the wait of this request"


def test_a_request_long_after_the_last_one_begins_a_new_wait() -> None:
    wait = CardWait(R)
    wait.ask(1000)
    wait.ask(1001 + OVERDUE * R)
    assert wait.due_ns(1001 + OVERDUE * R) == 1001 + OVERDUE * R


def test_a_stay_that_ended_before_a_run_began_and_before_the_residency_was_over_does_not_end_the_wait() -> None:
    """As when a resident model takes the card at once, or the card is lost."""
    wait = CardWait(R)
    wait.ask(1000)
    wait.arrive(1200)
    wait.leave(1210, used_ns=900)
    wait.ask(1220)
    assert wait.due_ns(1220) == 1000
    wait.arrive(1300)
    wait.leave(1300 + R, used_ns=900)
    assert wait.due_ns(1220) == 1300 + R, "it had the card, and nobody used it"


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30))
def test_waits_are_counted_once_and_the_longest_is_no_longer_than_all(steps: list[tuple[int, bool]]) -> None:
    wait, now, oldest, waited = CardWait(R), 1000, 0, 0
    for pause, waits in steps:
        now += pause
        if oldest:
            waited += pause
        wait.count(wait.since_ns(oldest), now)
        oldest = (oldest or now) if waits else 0
    assert wait.total_ns == waited
    assert 0 <= wait.longest_ns <= waited
