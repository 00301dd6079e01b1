# SPDX-License-Identifier: Apache-2.0
"""Who is next: priority levels, clients in turn by bytes, timeouts."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.server.core.config.schema import DynamicBatching, QueuePolicy
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.core.scheduling.fair_queue import LEAST_BYTES, FairQueue
from hypersonic.server.core.scheduling.rule import BatchRule
from hypersonic.server.errors import CancelledError, QueueFullError, QueueTimeoutError
from tests.support.waiting import wait_until

HOUR_US = 3_600_000_000


def pending(client: str = "", size: int = 1, priority: int = 0, timeout_us: int = 0, name: str = "") -> PendingRequest:
    request = CheckedRequest(name, 1, (memoryview(bytes(size)),), ((1,),), (0,), priority=priority, timeout_us=timeout_us)
    return PendingRequest(request, lambda *_: b"", 0, client=client)


def batcher(**batching: Any) -> DynamicBatcher:
    rule = BatchRule.of(100, DynamicBatching(**batching), 100)
    return DynamicBatcher(rule)


def add(queue: FairQueue, client: str, size: int) -> PendingRequest:
    request = pending(client, size)
    request.queued.size_bytes = size
    queue.add(request)
    return request


def order(target: DynamicBatcher) -> list[str]:
    return [share.pending.request.id for share in target.take().shares]


def test_a_small_request_does_not_wait_behind_the_backlog_of_a_large_client() -> None:
    queue = FairQueue()
    large = [add(queue, "large", 10**8) for _ in range(5)]
    small = add(queue, "small", 1000)
    assert [share.pending for share in queue] == [large[0], small, *large[1:]]


def test_after_a_turn_the_others_come_first_however_much_one_client_queues() -> None:
    queue = FairQueue()
    for _ in range(50):
        add(queue, "a", 100)
    queue.take(1)
    for _ in range(3):
        add(queue, "b", 100)
    clients = [share.pending.client for share in queue.take(6)]
    assert clients.count("b") == 3


SIZES = st.integers(LEAST_BYTES, 20 * LEAST_BYTES)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10 * LEAST_BYTES)), max_size=60))
def test_the_requests_of_one_client_stay_in_their_order(arrivals: list[tuple[str, int]]) -> None:
    queue = FairQueue()
    arrived = [add(queue, client, size) for client, size in arrivals]
    served = [share.pending for share in queue.take(len(arrivals))]
    for client in "abc":
        assert [p for p in served if p.client == client] == [p for p in arrived if p.client == client]


@given(st.lists(SIZES, min_size=20, max_size=60), SIZES)
def test_no_client_that_waits_gets_more_than_its_half_and_one_request(large: list[int], small: int) -> None:
    queue = FairQueue()
    for size in large:
        add(queue, "a", size)
    for _ in range(100):
        add(queue, "b", small)
    served = {"a": 0, "b": 0}
    while {"a", "b"} == {share.pending.client for share in queue}:
        share = queue.take(1)[0]
        served[share.pending.client] += share.pending.queued.size_bytes
        assert abs(served["a"] - served["b"]) <= 2 * max(*large, small)


def test_a_client_whose_requests_are_given_up_again_and_again_has_its_turn_as_if_they_had_never_come() -> None:
    """Requests with short timeouts at a busy model: each of them cost its client a place further back."""
    queue = FairQueue()
    for _ in range(3):
        add(queue, "a", 10**6)
    for _ in range(50):
        for given_up in [add(queue, "b", 10**6) for _ in range(20)]:
            assert queue.remove(given_up)
        queue.take(1)
        add(queue, "a", 10**6)
    patient = add(queue, "b", 10**6)
    assert patient in [share.pending for share in queue.take(2)]


@given(st.lists(st.tuples(st.sampled_from("abc"), SIZES, st.booleans()), max_size=40), st.randoms())
def test_requests_that_leave_without_a_run_change_nothing_for_the_others(
    arrivals: list[tuple[str, int, bool]], rng: Random
) -> None:
    queue, without = FairQueue(), FairQueue()
    twins, leaving = {}, []
    for client, size, stays in arrivals:
        request = add(queue, client, size)
        if stays:
            twins[request] = add(without, client, size)
        else:
            leaving.append(request)
    rng.shuffle(leaving)
    for request in leaving:
        assert queue.remove(request)
        assert not queue.remove(request)
    assert [twins[share.pending] for share in queue] == [share.pending for share in without]


@settings(max_examples=30)
@given(st.lists(SIZES, min_size=5, max_size=12), SIZES, st.randoms())
def test_a_client_gets_its_half_however_many_of_its_requests_it_gives_up(large: list[int], small: int, rng: Random) -> None:
    queue = FairQueue()
    for size in large:
        add(queue, "a", size)
    served = {"a": 0, "b": 0}
    while "a" in {share.pending.client for share in queue}:
        for _ in range(4):
            add(queue, "b", small)
        mine = [share.pending for share in queue if share.pending.client == "b"]
        for given_up in rng.sample(mine, len(mine) - 1):
            queue.remove(given_up)
        share = queue.take(1)[0]
        served[share.pending.client] += share.pending.queued.size_bytes
        assert abs(served["a"] - served["b"]) <= 2 * max(*large, small)


def test_a_request_without_bytes_counts_too_so_that_a_flood_of_them_holds_nobody_up() -> None:
    queue = FairQueue()
    for _ in range(1000):
        add(queue, "empty", 0)
    served = [add(queue, "large", 10 * LEAST_BYTES)]
    for _ in range(120):
        if served[-1].client == "large":
            add(queue, "large", 10 * LEAST_BYTES)
        add(queue, "empty", 0)
        served.append(queue.take(1)[0].pending)
    assert sum(request.client == "large" for request in served) > 10


def test_the_rows_of_a_lost_run_come_before_all_that_arrived_since() -> None:
    """Even if the queue was empty in the meantime."""
    queue = FairQueue()
    for _ in range(5):
        add(queue, "a", 10**9)
    lost = queue.take(5)[-1]
    later = add(queue, "b", 10**6)
    queue.insert(lost)
    assert [share.pending for share in queue] == [lost.pending, later]


def test_a_request_of_several_runs_keeps_its_place_when_others_of_its_client_leave() -> None:
    queue = FairQueue()
    request = pending("a", 100)
    request.queued.size_bytes = 10**6
    queue.add(request)
    (whole,) = queue.take(1)
    other, gone, last = add(queue, "b", 10**6), add(queue, "a", 10**6), add(queue, "a", 10**6)
    queue.insert(whole)
    assert queue.remove(gone)
    assert [share.pending for share in queue] == [request, other, last]


def test_a_higher_priority_level_goes_first_and_none_is_the_default_level() -> None:
    target = batcher(priority_levels=3, default_priority_level=2)
    for name, priority in (("low", 3), ("default", 0), ("high", 1), ("two", 2), ("beyond", 9)):
        target.enqueue(pending(priority=priority, name=name))
    assert order(target) == ["high", "default", "two", "beyond", "low"]


def test_each_level_has_the_queue_policy_that_is_given_for_it() -> None:
    policies = {1: QueuePolicy(max_queue_size=1)}
    target = batcher(priority_levels=2, default_priority_level=2, priority_policies=policies)
    target.enqueue(pending(priority=1))
    with pytest.raises(QueueFullError):
        target.enqueue(pending(priority=1))
    for _ in range(5):
        target.enqueue(pending(priority=2))
    assert len(target) == 6


def test_an_expired_request_is_refused_when_a_batch_is_taken_and_never_runs() -> None:
    target = batcher(queue_policy=QueuePolicy(timeout_us=HOUR_US, allow_timeout_override=True))
    late = pending(timeout_us=1, name="late")
    target.enqueue(late)
    target.enqueue(pending(name="other"))
    wait_until(lambda: time.monotonic_ns() >= late.queued.expires_ns)
    assert order(target) == ["other"]
    assert isinstance(late.error, QueueTimeoutError)


def test_a_cancelled_request_leaves_the_queue() -> None:
    target = batcher()
    gone, stays = pending(name="gone"), pending(name="stays")
    target.enqueue(gone)
    target.enqueue(stays)
    target.withdraw(gone, CancelledError())
    assert isinstance(gone.error, CancelledError)
    assert order(target) == ["stays"]


def test_requests_of_different_shapes_do_not_share_a_run() -> None:
    target = batcher()
    for name, group in (("a", ((3,),)), ("b", ((3,),)), ("c", ((4,),)), ("d", ((3,),))):
        request = pending(name=name)
        request.request = request.request._replace(group=group)
        target.enqueue(request)
    assert [order(target), order(target), order(target)] == [["a", "b"], ["c"], ["d"]]


@given(st.permutations(range(6)))
def test_with_preserve_ordering_answers_leave_in_the_order_of_the_requests(completed: list[int]) -> None:
    target = batcher(preserve_ordering=True)
    left: list[str] = []
    requests = [
        PendingRequest(pending(name=str(n)).request, lambda *_: b"", 0, on_done=lambda done: left.append(done.request.id))
        for n in range(6)
    ]
    for request in requests:
        target.enqueue(request)
    for n in completed:
        requests[n].release()
        assert left == [str(i) for i in range(len(left))]
    assert left == [str(n) for n in range(6)]
