# SPDX-License-Identifier: Apache-2.0
"""The batching rule as a function of the queue and the time: no batcher, no threads, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.core.scheduling.rule import BatchRule, QueuedRows, Take, Wait, choose_batch

rules = st.builds(
    BatchRule,
    capacity_rows=st.just(16),
    merge=st.booleans(),
    preferred_rows=st.frozensets(st.integers(1, 16), max_size=3),
    max_delay_ns=st.sampled_from([0, 1, 50, 1000]),
)
waiting = st.builds(
    QueuedRows,
    rows=st.integers(1, 20),
    enqueued_ns=st.integers(1, 200),
    group=st.sampled_from(["a", "a", "a", "b"]),
    alone=st.sampled_from([False, False, False, True]),
)
queues = st.lists(waiting, max_size=8)
times = st.integers(200, 2000)


def reach(rule: BatchRule, queue: Sequence[QueuedRows]) -> list[QueuedRows]:
    """The requests from the head on that may share one run."""
    together: list[QueuedRows] = []
    for each in queue:
        apart = not rule.merge or each.group != queue[0].group or each.alone or queue[0].alone
        if together and (apart or sum(other.rows for other in together) + each.rows > rule.capacity_rows):
            break
        together.append(each)
    return together


@given(rules, queues, times, st.booleans())
def test_no_batch_has_more_rows_than_a_slot_and_only_a_request_larger_than_one_is_cut(
    rule: BatchRule, queue: list[QueuedRows], now_ns: int, closing: bool
) -> None:
    choice = choose_batch(rule, queue, now_ns, closing=closing)
    if isinstance(choice, Wait):
        return
    assert 0 < choice.rows <= rule.capacity_rows
    if queue[0].rows > rule.capacity_rows:
        assert choice == Take(1, rule.capacity_rows)
    else:
        assert choice.rows == sum(each.rows for each in queue[: choice.requests])
        assert choice.requests <= len(reach(rule, queue))


@given(rules, queues, times)
def test_nobody_waits_beyond_the_delay(rule: BatchRule, queue: list[QueuedRows], now_ns: int) -> None:
    choice = choose_batch(rule, queue, now_ns)
    if isinstance(choice, Wait) and queue:
        oldest_ns = min(each.enqueued_ns for each in reach(rule, queue))
        assert now_ns < choice.until_ns == oldest_ns + rule.max_delay_ns
        assert isinstance(choose_batch(rule, queue, choice.until_ns), Take)


@given(rules, queues, times)
def test_a_preferred_size_is_taken_as_soon_as_it_is_there(rule: BatchRule, queue: list[QueuedRows], now_ns: int) -> None:
    sums = list(accumulate(each.rows for each in reach(rule, queue)))
    preferred = [rows for rows in sums if rows in rule.preferred_rows]
    if not preferred:
        return
    choice = choose_batch(rule, queue, now_ns)
    assert isinstance(choice, Take)
    overdue = rule.max_delay_ns and now_ns >= min(each.enqueued_ns for each in reach(rule, queue)) + rule.max_delay_ns
    assert choice.rows == (sums[-1] if overdue else preferred[-1])


@given(rules, queues, times)
def test_when_no_more_requests_will_come_nothing_waits(rule: BatchRule, queue: list[QueuedRows], now_ns: int) -> None:
    assert isinstance(choose_batch(rule, queue, now_ns, closing=True), Take) == bool(queue)


@given(rules, queues, times)
def test_the_same_queue_at_the_same_time_gives_the_same_decision(rule: BatchRule, queue: list[QueuedRows], now_ns: int) -> None:
    assert choose_batch(rule, tuple(queue), now_ns) == choose_batch(rule, iter(queue), now_ns)


@given(rules, queues, times, waiting)
def test_a_batch_that_is_taken_does_not_wait_because_one_more_request_comes(
    rule: BatchRule, queue: list[QueuedRows], now_ns: int, late: QueuedRows
) -> None:
    if isinstance(choose_batch(rule, queue, now_ns), Take):
        assert isinstance(choose_batch(rule, [*queue, late], now_ns), Take)


@given(rules, queues, times)
def test_a_queue_that_is_followed_to_its_end_gives_every_row_once(
    rule: BatchRule, queue: list[QueuedRows], now_ns: int
) -> None:
    left, taken_rows = list(queue), 0
    while left:
        choice = choose_batch(rule, left, now_ns)
        if isinstance(choice, Wait):
            now_ns = choice.until_ns
            continue
        taken_rows += choice.rows
        if choice.rows < left[0].rows:
            left[0] = left[0]._replace(rows=left[0].rows - choice.rows)
        else:
            del left[: choice.requests]
    assert taken_rows == sum(each.rows for each in queue)


def test_the_decision_waits_for_the_first_timeout_where_that_comes_before_the_delay_is_over() -> None:
    rule = BatchRule(16, merge=True, max_delay_ns=1000)
    queue = [QueuedRows(1, enqueued_ns=100)]
    assert choose_batch(rule, queue, 100) == Wait(1100)
    assert choose_batch(rule, queue, 100, expires_ns=500) == Wait(500)
    assert choose_batch(rule, queue, 100, expires_ns=5000) == Wait(1100)


def test_an_empty_queue_waits_for_something_to_change() -> None:
    assert choose_batch(BatchRule(16), (), 100) == Wait(0)


def test_no_more_of_the_queue_is_read_than_decides() -> None:
    def endless() -> Iterator[QueuedRows]:
        while True:
            yield QueuedRows(5, enqueued_ns=100)

    assert choose_batch(BatchRule(16, merge=True, max_delay_ns=1000), endless(), 100) == Take(3, 15)
