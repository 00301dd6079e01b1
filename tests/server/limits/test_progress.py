# SPDX-License-Identifier: Apache-2.0
"""Loops that do not come round: each is made stuck for real; the server is not ready until the loop goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.core.scheduling.scheduler import Scheduler
from hypersonic.server.limits import supervisor
from hypersonic.server.limits.supervisor import MOST_MISSED, Progress
from hypersonic.server.wire.grpc.grpcio.handlers import GenericHandler
from tests.server.conftest import Running, Script, Serve, rows, tensor, write_model
from tests.support.waiting import wait_until

WAIT_S = 30.0
SCHEDULER = "the scheduler of model 'm' version 1"
DELAYED = "dynamic_batching { max_queue_delay_microseconds: 3600000000 }"


@given(st.lists(st.booleans(), max_size=4 * MOST_MISSED))
def test_a_loop_is_stuck_while_it_has_missed_so_many_questions_in_a_row(answers: list[bool]) -> None:
    changes: list[frozenset[str]] = []
    progress = Progress(lambda: changes.append(progress.stuck))
    missed, stuck, expected = 0, False, []
    for came in answers:
        progress.ask([("other", lambda: True), ("loop", lambda came=came: came)])  # type: ignore[misc]
        missed = 0 if came else missed + 1
        if stuck is not (missed >= MOST_MISSED):
            stuck = not stuck
            expected.append(frozenset({"loop"} if stuck else ()))
        assert progress.stuck == frozenset({"loop"} if stuck else ())
    assert changes == expected


def test_a_loop_that_is_gone_is_not_stuck_and_the_log_says_both(caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress(lambda: None)
    for _ in range(MOST_MISSED):
        progress.ask([("loop", lambda: False)])
    assert progress.stuck == {"loop"}
    assert "loop has work and has done none for 10 s: the server is not ready; restart it" in caplog.text
    progress.ask([])
    assert progress.stuck == frozenset()
    assert "loop works again, or is gone" in caplog.text


def test_a_thread_of_its_own_asks_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOOK_S", 0.001)
    asked = threading.Semaphore(0)
    progress = Progress(lambda: None)
    progress.start(lambda: [("loop", lambda: asked.release() or False)])
    wait_until(lambda: progress.stuck == {"loop"})
    progress.close()
    wait_until(lambda: all(thread.name != "progress" for thread in threading.enumerate()))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions follow one another so quickly that a stuck loop is noticed within seconds."""
    monkeypatch.setattr(supervisor, "LOOK_S", 0.1)


@contextmanager
def not_ready(running: Running, stuck: str, gate: threading.Event) -> Iterator[None]:
    """Wait until this loop is stuck, then open the gate and wait until the server is ready again."""
    service = running.server.service
    try:
        wait_until(lambda: service.progress.stuck, WAIT_S)
        assert service.progress.stuck == {stuck}
        assert not service.ready
        yield
    finally:
        gate.set()
    wait_until(lambda: service.ready, WAIT_S)


def submit(running: Running, on_done: Any = lambda _: None) -> PendingRequest:
    """Queue a request that a runner has to run."""
    data = np.ones((1, 3), np.float32).data.cast("B")
    pending = PendingRequest(
        CheckedRequest("", 1, (data,), ((1, 3),), (0,)), lambda *_: b"answer", time.monotonic_ns(), on_done=on_done
    )
    scheduler_of(running).submit(pending, here=False)
    return pending


def scheduler_of(running: Running) -> Scheduler:
    model = running.server.repository.model("m")
    assert isinstance(model, ScheduledModel)
    return model.scheduler


def test_a_stuck_event_loop_of_http_makes_the_server_not_ready_for_grpc(serve: Serve, quick: None) -> None:
    gate = threading.Event()
    with serve() as running, triton.InferenceServerClient(running.grpc) as client:
        http = running.server._http
        assert http is not None
        wait_until(lambda: http._loop, WAIT_S)
        assert http._loop is not None
        assert client.is_server_ready()
        http._loop.call_soon_threadsafe(gate.wait, WAIT_S)
        with not_ready(running, "the event loop of HTTP", gate):
            assert client.is_server_live()
            assert not client.is_server_ready()
        assert client.is_server_ready()


def test_a_stuck_queue_of_grpc_calls_makes_the_server_not_ready(
    serve: Serve, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, find = threading.Event(), GenericHandler.service

    def service(handler: GenericHandler, details: Any) -> Any:
        if details.method.endswith("ModelInfer"):
            gate.wait(WAIT_S)
        return find(handler, details)

    monkeypatch.setattr(GenericHandler, "service", service)
    with serve() as running, triton.InferenceServerClient(running.grpc) as client:
        answers: list[Any] = []
        client.async_infer("m", [tensor(rows(1))], lambda result, error: answers.append(error or result))
        with not_ready(running, "gRPC's queue of calls 'infer'", gate):
            assert not client.is_server_ready()  # another queue has this call
        wait_until(lambda: answers)
        assert answers[0].as_numpy("y").shape == (1, 1)


def test_a_scheduler_whose_lock_is_never_released_makes_the_server_not_ready(
    serve: Serve, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, take = threading.Event(), DynamicBatcher.take

    def blocked(batcher: DynamicBatcher, *args: Any) -> Any:
        if len(batcher):
            gate.wait(WAIT_S)
        return take(batcher, *args)

    with serve(Script(slots=1)) as running:
        monkeypatch.setattr(DynamicBatcher, "take", blocked)
        over = threading.Event()
        submit(running, lambda _: over.set())
        with not_ready(running, SCHEDULER, gate):
            assert not over.is_set()
        assert over.wait(WAIT_S)


def test_a_scheduler_whose_runner_does_not_come_back_makes_the_server_not_ready(serve: Serve, quick: None) -> None:
    """The slot is free again: the runner is stuck after the run, where it hands out the answer."""
    gate, over = threading.Event(), threading.Event()
    with serve(Script(slots=1)) as running:
        submit(running, lambda _: gate.wait(WAIT_S))
        submit(running, lambda _: over.set())
        with not_ready(running, SCHEDULER, gate):
            assert not over.is_set()
        assert over.wait(WAIT_S)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_run_that_takes_for_ever_is_not_stuck_however_many_requests_wait(serve: Serve, slots: int) -> None:
    script = Script(slots=slots, gate=threading.Event())
    with serve(script) as running:
        pendings = [submit(running) for _ in range(slots)]
        for _ in pendings:
            assert script.started.acquire(timeout=WAIT_S)
        pendings += [submit(running) for _ in range(5)]
        for _ in range(3 * MOST_MISSED):
            assert scheduler_of(running).comes_round()
        script.open_gate()
        wait_until(lambda: all(each.completed for each in pendings))


def test_requests_that_wait_for_their_batch_are_not_stuck(serve: Serve, tmp_path: Any) -> None:
    write_model(tmp_path / "delayed", config=DELAYED)
    with serve(repository=tmp_path / "delayed") as running:
        submit(running)
        for _ in range(2 * MOST_MISSED):  # a runner that is woken by the question has come round before another one
            wait_until(scheduler_of(running).comes_round, WAIT_S)


def test_idle_loops_come_round(serve: Serve) -> None:
    with serve() as running:
        for _ in range(2 * MOST_MISSED):
            for name, comes_round in running.server._loops():
                wait_until(comes_round, WAIT_S, explain=lambda name=name: name)  # type: ignore[misc]
