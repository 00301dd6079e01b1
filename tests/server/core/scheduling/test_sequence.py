# SPDX-License-Identifier: Apache-2.0
"""Sequences: slots, order, controls, states, and what clients see when one goes wrong; on the batcher alone."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.parameters import SequenceMark
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.sequence import SequenceBatcher
from hypersonic.server.errors import CancelledError, InvalidRequestError, InvalidTensorError, UnavailableError
from tests.server.core.scheduling.sequence_batchers import DIRECT, batcher

OLDEST = "oldest { max_candidate_sequences: 4 }"


def request(
    sequence: int | str, x: int = 0, *, start: bool = False, end: bool = False, rows: int = 1, client: str = ""
) -> PendingRequest:
    data = np.full((rows, 1), x, np.int32).data.cast("B")
    mark = SequenceMark(sequence, start, end)
    return PendingRequest(
        CheckedRequest("", rows, (data,), ((rows, 1),), (0,), sequence=mark), lambda *_: b"", 0, client=client
    )


def send(target: SequenceBatcher, *requests: PendingRequest) -> None:
    for pending in requests:
        target.enqueue(pending)


def controls(share: Share) -> tuple[float, ...]:
    """START, END, READY, CORRID."""
    types = {"INT32": np.int32, "FP32": np.float32, "BOOL": np.bool_, "UINT64": np.uint64}
    extra = share.pending.request.extra
    assert [tensor.name for tensor in extra[:4]] == ["START", "END", "READY", "CORRID"]
    assert all(tensor.shape == (1, 1) for tensor in extra[:4])
    return tuple(float(np.frombuffer(tensor.data, types[tensor.datatype])[0]) for tensor in extra[:4])


def run(target: SequenceBatcher, instance: int = 0) -> list[tuple[float, ...]]:
    """Take a batch, end its run; the controls of its shares."""
    shares = target.take(None, instance).shares
    for share in shares:
        if target.end_run(share):
            share.pending.release()
    return [controls(share) for share in shares]


@pytest.mark.parametrize("strategy", [DIRECT, OLDEST])
def test_requests_of_a_sequence_run_one_after_another_with_their_controls(strategy: str) -> None:
    target = batcher(strategy)
    send(target, request(5, start=True), request(5), request(5, end=True))
    assert [run(target) for _ in range(4)] == [[(1, 0, 1, 5)], [(0, 0, 1, 5)], [(0, 1, 1, 5)], []]


def test_direct_requests_keep_their_places_and_gaps_get_null_requests() -> None:
    target = batcher()
    send(target, request(10, start=True), request(11, start=True), request(12, start=True))
    assert len(run(target)) == 3
    send(target, request(12, 7))
    shares = target.take().shares
    assert [share.pending.null for share in shares] == [True, True, False]
    assert [controls(share) for share in shares] == [(0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 1, 12)]
    assert all(bytes(share.tensors[0] or b"") == bytes(4) for share in shares[:2])
    assert [target.end_run(share) for share in shares] == [False, False, True]


def test_oldest_takes_one_request_of_each_sequence_oldest_first() -> None:
    target = batcher(OLDEST)
    send(target, request(1, start=True), request(1), request(2, start=True))
    assert [run(target), run(target)] == [[(1, 0, 1, 1), (1, 0, 1, 2)], [(0, 0, 1, 1)]]


def test_a_sequence_stays_with_its_instance() -> None:
    target = batcher(instances=2)
    send(target, request(1, start=True), request(2, start=True))
    assert (len(run(target, 0)), len(run(target, 1))) == (1, 1)
    send(target, request(2))
    assert (run(target, 0), run(target, 1)) == ([], [(0, 0, 1, 2)])


def test_sequences_without_a_seat_wait_until_one_ends() -> None:
    target = batcher()
    send(target, *(request(n, start=True) for n in range(1, 6)))
    assert [c[3] for c in run(target)] == [1, 2, 3, 4]
    assert (run(target), len(target)) == ([], 1)
    send(target, request(2, end=True))
    assert [c[3] for c in run(target)] == [0, 2]
    assert [c[3] for c in run(target)] == [0, 5]


def test_sequences_that_fell_silent_give_their_seats_away() -> None:
    target = batcher(more="max_sequence_idle_microseconds: 1")
    send(target, *(request(n, start=True) for n in range(1, 5)))
    run(target)
    send(target, request(5, start=True))
    assert [c[3] for c in run(target)] == [5]
    with pytest.raises(InvalidTensorError, match="must specify the START flag"):
        send(target, request(1))


def test_a_client_that_begins_many_sequences_and_ends_none_leaves_a_seat_to_each_other_client() -> None:
    target = batcher(more="max_sequence_idle_microseconds: 1")
    send(target, *(request(n, start=True, client="many") for n in range(1, 30)))
    send(target, request(100, start=True, client="one"), request(101, start=True, client="two"))
    assert [c[3] for c in run(target)] == [1, 2, 3, 4]
    assert {c[3] for c in run(target)} == {5, 6, 100, 101}
    assert {c[3] for c in run(target)} == {7, 8, 9, 10}, "the others have waited longest"


REFUSED = {
    "no correlation ID": (request(0, start=True), "must specify a non-zero or non-empty correlation ID"),
    "no start": (request(9), "request for sequence 9 to model 'm' must specify the START flag on the first request of the"),
    "two rows": (request(9, start=True, rows=2), "must specify batch-size 1 due to requirements of sequence batcher"),
    "a string": (request("abc", start=True), "the model's control input 'CORRID' takes UINT64"),
    "negative": (request(-1, start=True), "does not fit control input 'CORRID', UINT64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_out_of_sequence_is_refused_with_tritons_text(case: str) -> None:
    pending, text = REFUSED[case]
    with pytest.raises(InvalidRequestError, match=text):
        send(batcher(), pending)


def test_after_its_end_a_sequence_has_to_start_again() -> None:
    target = batcher()
    send(target, request(3, start=True, end=True))
    with pytest.raises(InvalidTensorError, match="START flag"):
        send(target, request(3))
    send(target, request(3, start=True))
    assert [run(target), run(target)] == [[(1, 1, 1, 3)], [(1, 0, 1, 3)]]


def test_a_cancelled_request_is_taken_out_and_a_cancelled_start_ends_its_sequence() -> None:
    target = batcher()
    begin, rest = request(1, start=True), request(1)
    send(target, begin, rest)
    target.withdraw(begin, CancelledError())
    assert isinstance(begin.error, CancelledError)
    assert isinstance(rest.error, CancelledError)
    assert (len(target), run(target)) == (0, [])


@pytest.mark.parametrize("strategy", [DIRECT, OLDEST])
def test_a_cancelled_restart_of_a_sequence_leaves_what_was_sent_before_it_and_the_instance_goes_on(strategy: str) -> None:
    """A client that sends START again because the first one took long, and gives that up too."""
    target = batcher(strategy)
    first, last = request(1, start=True), request(1, end=True)
    send(target, first, last)
    (share,) = target.take().shares
    again, more = request(1, start=True), request(1)
    send(target, again, more)
    target.withdraw(again, CancelledError())
    assert isinstance(again.error, CancelledError)
    assert isinstance(more.error, CancelledError), "its START is gone"
    assert (first.error, last.error) == (None, None)
    assert target.end_run(share)
    assert (run(target), last.error) == ([(0, 1, 1, 1)], None)
    with pytest.raises(InvalidTensorError, match="START flag"):
        send(target, request(1))
    send(target, request(2, start=True))
    assert run(target) == [(1, 0, 1, 2)]


def test_a_cancelled_restart_of_a_sequence_that_waits_for_nothing_ends_the_sequence() -> None:
    target = batcher()
    send(target, request(1, start=True))
    run(target)
    again = request(1, start=True)
    send(target, again)
    target.withdraw(again, CancelledError())
    with pytest.raises(InvalidTensorError, match="START flag"):
        send(target, request(1))


@pytest.mark.parametrize("strategy", [DIRECT, OLDEST])
def test_an_instance_whose_sequences_were_ended_during_a_run_takes_other_sequences_after_it(strategy: str) -> None:
    target = batcher(strategy)
    running, waiting = request(1, start=True), request(1)
    send(target, running, waiting)
    (share,) = target.take().shares
    target.suspend(UnavailableError("a thread has ended"))
    target.resume()
    assert (running.error, str(waiting.error)) == (None, "a thread has ended")
    send(target, request(2, start=True))
    assert not target.take().shares, "one run at a time"
    assert target.end_run(share)
    assert run(target) == [(1, 0, 1, 2)]
    with pytest.raises(InvalidTensorError, match="START flag"):
        send(target, request(1))


def test_a_lost_instance_ends_its_sequences_and_says_that_their_state_is_lost() -> None:
    target = batcher()
    first, other = request(1, start=True), request(2, start=True)
    send(target, first, other)
    shares = target.take().shares
    later = request(2)
    send(target, later)
    target.put_back(shares, UnavailableError("m_0 died"))
    assert all("m_0 died; the state of sequence" in str(pending.error) for pending in (first, other, later))
    with pytest.raises(InvalidTensorError, match="START flag"):
        send(target, request(1))


STATE = """state [ { input_name: "sum_in" output_name: "sum_out" data_type: TYPE_INT32 dims: [ 1 ] } ]"""


def test_state_goes_from_one_request_to_the_next_and_starts_anew() -> None:
    target = batcher(more=STATE)
    seen = []
    for x, start in ((1, True), (2, False), (3, False), (5, True)):
        send(target, request(1, x, start=start))
        (share,) = target.take().shares
        state = share.pending.request.extra[4]
        assert (state.name, state.shape) == ("sum_in", (1, 1))
        total = int(np.frombuffer(state.data, np.int32)[0]) + x
        seen.append(total)
        data = np.array([total], np.int32).tobytes()
        outputs = (Output(0, "INT32", (1, 1), (data,), 4), Output(1, "INT32", (1, 1), (data,), 4))
        target.keep_state(share, Answer(outputs))
        assert target.end_run(share)
    assert seen == [1, 3, 6, 5]


def test_closing_serves_what_has_a_seat_and_refuses_the_rest() -> None:
    target = batcher()
    send(target, *(request(n, start=True) for n in range(1, 5)))
    backlogged = request(5, start=True)
    send(target, backlogged)
    target.close(UnavailableError("closing"))
    assert str(backlogged.error) == "closing"
    assert len(run(target)) == 4
    assert len(target) == 0


def test_a_request_costs_the_same_however_many_sequences_wait() -> None:
    """Otherwise one client with many sequences takes the processor time of all others."""

    def seconds(target: SequenceBatcher, first: int) -> float:
        begin_s = time.thread_time()
        for n in range(first, first + 300):
            send(target, request(n, start=True, end=True, client="one"))
            assert len(target) >= 1
            run(target)
        return time.thread_time() - begin_s

    few, many = batcher(), batcher()
    send(many, *(request(n, start=True, client="many") for n in range(1, 8001)))
    assert len(many) == 8000
    short_s, long_s = (min(seconds(target, first) for first in (10_001, 20_001, 30_001)) for target in (few, many))
    assert long_s < 10 * short_s


def test_a_client_that_gives_up_many_waiting_sequences_costs_others_little() -> None:
    target = batcher()
    requests = [request(n, start=True) for n in range(1, 20_001)]
    send(target, *requests)
    begin_s = time.thread_time()
    for pending in reversed(requests):
        target.withdraw(pending, CancelledError())
    assert time.thread_time() - begin_s < 3
    assert len(target) == 0
    send(target, request(1, start=True))
    assert [c[3] for c in run(target)] == [1]
