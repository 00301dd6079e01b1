# SPDX-License-Identifier: Apache-2.0
"""Where a request's time went: what waited, what copied, what computed. Every moment counts once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import tritonclient.grpc as triton
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.statistics.times import RunTimes, join_times
from tests.server.conftest import Script, Serve, rows
from tests.support.waiting import wait_until

#: (taken, launched, done, answered) of each run, and (taken, compute_input, compute_infer, compute_output) of the request
SEVERAL_RUNS: dict[str, tuple[Sequence[tuple[int, ...]], tuple[int, ...]]] = {
    "one after another in one slot": ([(10, 12, 20, 23), (23, 25, 33, 36)], (10, 4, 16, 6)),
    "the second copied and answered while the other computes": ([(10, 12, 20, 23), (18, 20, 30, 33)], (10, 2, 18, 3)),
    "another client's run between them": ([(10, 12, 20, 23), (48, 50, 58, 61)], (35, 4, 16, 6)),
    "on two compute units at once": ([(10, 12, 20, 23), (11, 13, 25, 28)], (10, 2, 13, 3)),
    "answered in another order": ([(18, 20, 30, 33), (10, 12, 20, 23)], (10, 2, 18, 3)),
}


@pytest.mark.parametrize("name", SEVERAL_RUNS)
def test_of_a_request_of_several_runs_what_is_between_them_is_queue_time(name: str) -> None:
    runs, wanted = SEVERAL_RUNS[name]
    times = join_times([RunTimes(*run) for run in runs])
    assert (times.taken_ns, *(after - before for before, after in pairwise(times))) == wanted


@given(st.lists(st.lists(st.integers(0, 100), min_size=4, max_size=4).map(sorted), min_size=1, max_size=6))
def test_the_parts_never_add_up_to_more_than_the_whole_whatever_the_runs_were(runs: list[list[int]]) -> None:
    times = join_times([RunTimes(*run) for run in runs])
    assert min(run[0] for run in runs) <= times.taken_ns <= times.launched_ns <= times.done_ns <= times.answered_ns
    assert times.answered_ns == max(run[3] for run in runs)
    assert times.done_ns - times.launched_ns <= sum(run[2] - run[1] for run in runs)


def parts(figures: triton.service_pb2.InferStatistics) -> int:
    return int(figures.queue.ns + figures.compute_input.ns + figures.compute_infer.ns + figures.compute_output.ns)


def test_the_wait_in_the_second_slot_is_queue_time_and_a_request_that_waits_there_is_pending(serve: Serve) -> None:
    script = Script(slots=2, gate=threading.Event())
    with serve(script) as running, ThreadPoolExecutor(2) as pool, triton.InferenceServerClient(running.grpc) as client:
        model = running.server.repository.model("m")
        begin_ns = time.monotonic_ns()
        answers = [pool.submit(running.infer, rows(1))]
        assert script.started.acquire(timeout=20)
        answers.append(pool.submit(running.infer, rows(1)))
        assert script.started.acquire(timeout=20)
        both_ns = time.monotonic_ns()
        assert model.waiting == 1
        wait_until(lambda: time.monotonic_ns() - both_ns > 50_000_000)
        held_ns = time.monotonic_ns() - both_ns
        assert script.gate is not None
        script.gate.set()
        for answer in answers:
            answer.result()
        whole_ns = time.monotonic_ns() - begin_ns
        stats = client.get_inference_statistics("m").model_stats[0]
    figures = stats.inference_stats
    assert figures.queue.ns >= held_ns, "the second run waited so long for the first one"
    assert held_ns <= figures.compute_infer.ns <= whole_ns, "one compute unit cannot have worked longer than it was there"
    assert figures.compute_infer.ns == sum(batch.compute_infer.ns for batch in stats.batch_stats)
    assert parts(figures) <= figures.success.ns
    assert model.waiting == 0
