# SPDX-License-Identifier: Apache-2.0
"""The rule by which requests become batches, on the batcher alone: no threads, no cards."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.core.config.schema import DynamicBatching, QueuePolicy
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.batcher import MAX_TIMEOUTS, DynamicBatcher
from hypersonic.server.core.scheduling.lost_run import MOST_LOSSES
from hypersonic.server.core.scheduling.rule import BatchRule
from hypersonic.server.errors import BackendError, CancelledError, QueueFullError, UnavailableError
from tests.server.core.scheduling.batchers import batcher, enqueue, pending
from tests.support.waiting import wait_until

HOUR_US = 3_600_000_000


def take(target: DynamicBatcher) -> tuple[Share, ...]:
    return target.take().shares


def taken(target: DynamicBatcher) -> list[int]:
    return [share.rows for share in take(target)]


def test_without_dynamic_batching_every_request_goes_alone() -> None:
    target = batcher(merge=False)
    enqueue(target, 3, 4)
    assert [taken(target), taken(target), taken(target)] == [[3], [4], []]


def test_without_delay_what_is_there_goes_at_once() -> None:
    target = batcher()
    enqueue(target, 3, 4, 5)
    assert taken(target) == [3, 4, 5]


def test_requests_are_merged_as_long_as_the_sum_fits_a_slot_and_never_cut() -> None:
    target = batcher(capacity=10)
    enqueue(target, 4, 5, 3, 8, 2)
    assert [taken(target), taken(target), taken(target)] == [[4, 5], [3], [8, 2]]


def test_the_largest_preferred_size_that_is_reached_exactly_goes_first() -> None:
    target = batcher(preferred=(4, 8), delay_us=HOUR_US)
    enqueue(target, 4, 2, 2, 1)
    assert [taken(target), taken(target)] == [[4, 2, 2], []]


def test_a_batch_that_is_not_preferred_waits_for_more() -> None:
    target = batcher(preferred=(8,), delay_us=HOUR_US)
    enqueue(target, 3)
    assert taken(target) == []
    enqueue(target, 5)
    assert taken(target) == [3, 5]


def test_a_batch_does_not_grow_past_the_largest_preferred_size() -> None:
    target = batcher(preferred=(8,), delay_us=HOUR_US)
    enqueue(target, 6, 6)
    assert [taken(target), taken(target)] == [[6], []]


def test_a_batch_that_the_next_request_does_not_fit_goes_at_once() -> None:
    target = batcher(capacity=10, delay_us=HOUR_US)
    enqueue(target, 6, 6)
    assert [taken(target), taken(target)] == [[6], []]


def test_when_the_oldest_request_has_waited_long_enough_everything_goes() -> None:
    target = batcher(preferred=(2,), delay_us=1)
    enqueue(target, 2, 3)
    time.sleep(0.001)
    assert taken(target) == [2, 3]


def test_a_request_above_the_largest_preferred_size_does_not_wait() -> None:
    target = batcher(preferred=(8,), delay_us=HOUR_US)
    enqueue(target, 9)
    assert taken(target) == [9]


def test_a_request_larger_than_a_slot_is_split_and_its_tail_merged_with_others() -> None:
    target = batcher(capacity=10)
    enqueue(target, 25, 4)
    assert [taken(target), taken(target), taken(target)] == [[10], [10], [5, 4]]


def test_no_run_is_larger_than_max_batch_size() -> None:
    assert BatchRule.of(64, DynamicBatching(), 16).capacity_rows == 16


def test_a_share_views_its_own_rows_only() -> None:
    data = memoryview(bytes(range(40)))
    request = PendingRequest(CheckedRequest("", 10, (data, data[:10]), ((10, 4), (10, 1)), (0,)), lambda *_: b"", 0)
    assert [bytes(view or b"") for view in Share(request, 3, 2).tensors] == [bytes(range(12, 20)), bytes((3, 4))]


def test_a_full_queue_refuses() -> None:
    target = batcher(policy=QueuePolicy(max_queue_size=2))
    enqueue(target, 1, 1)
    with pytest.raises(QueueFullError, match="Exceeds maximum queue size"):
        enqueue(target, 1)


def test_a_withdrawn_request_is_never_taken() -> None:
    target = batcher()
    first, second = enqueue(target, 1, 2)
    target.withdraw(first, CancelledError())
    assert taken(target) == [2]
    assert isinstance(first.error, CancelledError)
    assert first.completed
    target.withdraw(second, CancelledError())
    assert not second.completed


def test_a_request_withdrawn_between_two_of_its_runs_ends_when_the_first_ends() -> None:
    target = batcher(capacity=10)
    (request,) = enqueue(target, 25)
    (share,) = take(target)
    target.withdraw(request, CancelledError())
    assert (taken(target), request.completed) == ([], False)
    assert not target.end_run(share)
    assert request.completed


def test_requests_put_back_stand_in_front_in_their_order() -> None:
    target = batcher(capacity=10)
    enqueue(target, 10, 6, 4, 1)
    lost = (*take(target), *take(target))
    target.put_back(lost, BackendError("hung"))
    assert [taken(target) for _ in range(4)] == [[10], [6], [4], [1]]


def test_requests_of_a_lost_run_run_again_alone_and_the_others_do_not_wait_longer_for_it() -> None:
    target = batcher(capacity=10, delay_us=HOUR_US)
    enqueue(target, 6, 4)
    target.put_back(take(target), BackendError("hung"))
    enqueue(target, 3, 7)
    assert [taken(target) for _ in range(4)] == [[6], [4], [3, 7], []]


def test_the_pieces_of_a_large_request_of_a_lost_run_run_alone() -> None:
    target = batcher(capacity=10)
    enqueue(target, 12)
    target.put_back(take(target), BackendError("hung"))
    enqueue(target, 3, 4)
    assert [taken(target) for _ in range(4)] == [[10], [2], [3, 4], []]


def test_once_too_many_requests_of_a_lost_run_have_ended_an_instance_the_others_fail_too() -> None:
    target = batcher(capacity=10)
    requests = enqueue(target, *[1] * 10)
    target.put_back(take(target), BackendError("hung"))
    (late,) = enqueue(target, 1)
    for n in range(MOST_LOSSES):
        assert [request.completed for request in requests] == [True] * n + [False] * (10 - n)
        target.put_back(take(target), BackendError("hung"))
    assert all(request.completed for request in requests)
    texts = [str(request.error) for request in requests]
    assert texts[:MOST_LOSSES] == ["hung"] * MOST_LOSSES
    assert all("not tried again" in text for text in texts[MOST_LOSSES:])
    assert (taken(target), late.completed) == ([1], False)


def test_two_lost_runs_are_two_matters() -> None:
    target = batcher(capacity=2)
    requests = enqueue(target, *[1] * 12)
    lost = [take(target) for _ in range(6)]
    for shares in lost:
        target.put_back(shares, BackendError("hung"))
    for n in range(0, 12, 2):
        target.put_back(take(target), BackendError("hung"))
        assert taken(target) == [1]
        assert requests[n].completed
        assert not requests[n + 1].completed


def test_a_request_put_back_after_its_timeout_is_refused_and_one_before_it_keeps_it() -> None:
    target = batcher()
    early, late = enqueue(target, 1, 2)
    shares = take(target)
    early.queued.expires_ns, late.queued.expires_ns = 1, time.monotonic_ns() + 1000 * HOUR_US
    target.put_back(shares, BackendError("hung"))
    assert 0 < target.expire() <= 1000 * HOUR_US
    assert (str(early.error), late.completed) == ("Request timeout expired", False)


def test_a_request_taken_back_in_a_lost_run_counts_as_cancelled() -> None:
    target = batcher()
    request, other = enqueue(target, 1, 2)
    shares = take(target)
    target.withdraw(request, CancelledError())
    target.put_back(shares, BackendError("hung"))
    assert isinstance(request.error, CancelledError)
    assert (taken(target), other.completed) == ([2], False)


def test_a_request_that_hung_too_many_instances_is_given_up() -> None:
    target = batcher()
    (request,) = enqueue(target, 1)
    for _ in range(MAX_TIMEOUTS):
        target.put_back(take(target), BackendError("hung"))
    assert request.completed
    assert str(request.error) == "hung"


def test_only_a_request_that_is_proven_to_end_instances_fails_with_the_error_for_that() -> None:
    target = batcher(capacity=2)
    requests = enqueue(target, 1, 1)
    proven = BackendError("killed by this request")
    target.put_back(take(target), UnavailableError("lost"), proven)
    assert not any(request.completed for request in requests)
    target.put_back(take(target), UnavailableError("lost"), proven)
    target.put_back(take(target), UnavailableError("lost"), None)
    assert [type(request.error) for request in requests] == [BackendError, UnavailableError]


def test_two_runs_of_one_request_lost_together_count_once() -> None:
    target = batcher(capacity=10)
    (request,) = enqueue(target, 20)
    lost = (*take(target), *take(target))
    target.put_back(lost, BackendError("hung"))
    assert not request.completed
    assert [taken(target), taken(target)] == [[10], [10]]


def test_a_failed_run_fails_the_whole_request_and_leaves_the_others() -> None:
    target = batcher(capacity=10)
    request, other = enqueue(target, 25, 3)
    target.fail(take(target), BackendError("broken"))
    assert request.completed
    assert (taken(target), other.completed) == ([3], False)


def test_after_close_what_waits_is_still_taken_and_nothing_new_comes_in() -> None:
    target = batcher(delay_us=HOUR_US)
    enqueue(target, 3)
    target.close(UnavailableError("closing"))
    assert taken(target) == [3]
    assert target.take() == ((), 0)
    with pytest.raises(UnavailableError, match="closing"):
        enqueue(target, 1)


def test_abandon_fails_everything_that_waits() -> None:
    target = batcher()
    requests = enqueue(target, 3, 4)
    target.abandon(UnavailableError("no card is left"))
    assert [str(request.error) for request in requests] == ["no card is left"] * 2
    assert len(target) == 0


def test_with_timeout_action_delay_expired_requests_go_behind_the_others() -> None:
    policy = QueuePolicy(timeout_us=HOUR_US, allow_timeout_override=True, delay_on_timeout=True)
    target = batcher(capacity=10, policy=policy)
    late = pending(7, timeout_us=1)
    target.enqueue(late)
    enqueue(target, 8)
    wait_until(lambda: time.monotonic_ns() >= late.queued.expires_ns)
    assert taken(target) == [8]
    enqueue(target, 9)
    assert [taken(target), taken(target)] == [[9], [7]]


@given(st.integers(0, 100), st.integers(-5, 100), st.booleans())
def test_a_request_can_only_shorten_its_timeout(default_us: int, asked_us: int, allowed: bool) -> None:
    policy = QueuePolicy(timeout_us=default_us, allow_timeout_override=allowed)
    expected = asked_us if allowed and 0 < asked_us < default_us else default_us
    assert policy.timeout_of(asked_us) == expected


@given(
    rows=st.lists(st.integers(1, 40), max_size=20),
    capacity=st.integers(1, 20),
    preferred=st.lists(st.integers(1, 20), max_size=3),
    merge=st.booleans(),
)
def test_every_row_is_taken_once_and_in_order(rows: list[int], capacity: int, preferred: list[int], merge: bool) -> None:
    target = batcher(capacity=capacity, preferred=tuple(preferred), merge=merge)
    requests = enqueue(target, *rows)
    seen: dict[int, list[tuple[int, int]]] = {id(request): [] for request in requests}
    order: list[int] = []
    while shares := take(target):
        assert sum(share.rows for share in shares) <= capacity
        for share in shares:
            assert share.whole or share.pending.request.rows > capacity
            seen[id(share.pending)].append((share.first_row, share.rows))
            order.append(id(share.pending))
    assert list(dict.fromkeys(order)) == [id(request) for request in requests]
    for request in requests:
        covered = [row for first, count in seen[id(request)] for row in range(first, first + count)]
        assert covered == list(range(request.request.rows))
