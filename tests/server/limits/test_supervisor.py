# SPDX-License-Identifier: Apache-2.0
"""Threads that end by an exception: each kind is killed once and twice, and nobody waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import UnavailableError
from hypersonic.server.limits import supervisor
from hypersonic.server.limits.slow_clients import Fault, SlowClients
from hypersonic.server.limits.supervisor import Supervisor
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import Script, SumBackend, write_model
from tests.server.repository.opened_repository import Rows, ask, rows
from tests.support.waiting import wait_until

WAIT_S = 30.0
QUEUED = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 60000000 } }"


class InjectedError(BaseException):
    """Ends a thread whose loop goes on after an Exception."""


class Killer:
    """Kills threads of one name: what it replaces raises there as often as armed, and otherwise does what it did."""

    def __init__(self, thread: str, wrapped: Callable[..., Any], when: Callable[[Any], object]) -> None:
        self.armed = 0
        self._thread, self._wrapped, self._when = thread, wrapped, when

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self.armed and threading.current_thread().name.endswith(self._thread) and self._when(args[0]):
            self.armed -= 1
            raise InjectedError("injected")
        return self._wrapped(*args, **keywords)


def killer(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, thread: str, when: Callable[[Any], object] = lambda _: True
) -> Killer:
    """Replace a function, or a method of a class, by one that kills.

    Args:
        when: given the first argument.
    """
    made = Killer(thread, getattr(owner, name), when)

    def call(*args: Any, **keywords: Any) -> Any:  # a function, so that it becomes a method of a class
        return made(*args, **keywords)

    monkeypatch.setattr(owner, name, call)
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "PAUSE_S", 0.0)


EXPLICIT = ModelControlOptions(ModelControlMode.EXPLICIT, ("m",))


@contextmanager
def opened(
    directory: Path, script: Script, control: ModelControlOptions = EXPLICIT
) -> Iterator[tuple[ModelRepository, list[Rows]]]:
    """A repository of the model m, and its index at each change of the models in service."""
    write_model(directory, config=QUEUED)
    seen: list[Rows] = []
    made = ModelRepository(
        [directory], {"sum": SumBackend(script)}, ScheduledModel, lambda: seen.append(rows(made)), control=control
    )
    made.load_all()
    yield made, seen
    assert made.close(WAIT_S)


def test_work_that_ends_by_itself_is_not_repeated() -> None:
    done: list[int] = []
    threads = Supervisor("o", lambda: done.append(-1), "r")
    threads.start("t", lambda: done.append(1)).join(WAIT_S)
    assert (done, threads.reason, threads.lost) == ([1], "", False)


def test_a_thread_begins_again_once_and_its_reason_says_so(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, bool]] = []
    threads = Supervisor("the owner", lambda: seen.append((threads.reason, threads.lost)), "do this")

    def work() -> None:
        raise ValueError("a\nb" * 500)

    threads.start("t", work).join(WAIT_S)
    (first, lost), between, (second, lost_then) = seen
    assert first.startswith("the thread 't' ended with ValueError (a\\nba\\nb")
    assert first.endswith("; it begins again in 0 s")
    assert second.endswith("; it has ended for the second time: do this")
    assert (lost, between, lost_then) == (False, ("", False), True)
    assert len(second) < 700
    assert f"the owner: {second}" in caplog.text
    assert "the owner: the thread 't' begins again" in caplog.text


def test_a_thread_does_not_begin_again_after_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "PAUSE_S", 3600.0)
    done: list[int] = []
    threads = Supervisor("o", lambda: None, "r")
    thread = threads.start("t", lambda: done.append(1) or 1 / 0)  # type: ignore[arg-type]
    threads.close()
    thread.join(WAIT_S)
    assert (done, thread.is_alive()) == ([1], False)


def submitted(repository: ModelRepository) -> tuple[PendingRequest, threading.Event]:
    """A request that a runner has to run, and the event of its end."""
    over = threading.Event()
    data = np.ones((1, 3), np.float32).data.cast("B")
    request = CheckedRequest("", 1, (data,), ((1, 3),), (0,))
    pending = PendingRequest(request, lambda *_: b"answer", time.monotonic_ns(), on_done=lambda _: over.set())
    model = repository.model("m")
    assert isinstance(model, ScheduledModel)
    model.scheduler.submit(pending, here=False)
    return pending, over


def check_down(row: tuple[str, str, str, str], thread: str, fate: str) -> None:
    assert row[:3] == ("m", "1", "UNAVAILABLE")
    assert f"{thread}' ended with InjectedError (injected); {fate}" in row[3]


def await_down(seen: list[Rows]) -> tuple[str, str, str, str]:
    """The first row of the index in which the model was UNAVAILABLE."""
    wait_until(lambda: any(row[2] == "UNAVAILABLE" for index in seen for row in index))
    return next(row for index in tuple(seen) for row in index if row[2] == "UNAVAILABLE")


FATES = ("it begins again in 0 s", "it has ended for the second time: load the model again, or restart the server")


def test_a_runner_is_killed_once_and_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = killer(monkeypatch, DynamicBatcher, "take", ":sum_1:0", when=len)
    with opened(tmp_path, Script(slots=1)) as (repository, seen):
        for fate in FATES:
            assert ask(repository) == 3.0
            seen.clear()
            kill.armed = 1
            pending, over = submitted(repository)
            assert over.wait(WAIT_S)
            assert isinstance(pending.error, UnavailableError)
            assert f"ended with InjectedError (injected); {fate}" in str(pending.error)
            check_down(await_down(seen), ":sum_1:0", fate)
            if fate is FATES[0]:
                wait_until(lambda: rows(repository) == [("m", "1", "READY", "")])
        check_down(rows(repository)[0], ":sum_1:0", FATES[1])
        with pytest.raises(UnavailableError, match=r"is not at ready state: the thread '.*:sum_1:0' ended with InjectedError"):
            ask(repository)
        repository.load("m")
        assert ask(repository) == 3.0


def test_the_thread_that_watches_timeouts_is_killed_once_and_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = killer(monkeypatch, DynamicBatcher, "expire", ":timeouts", when=len)
    script = Script(slots=1, gate=threading.Event())
    with opened(tmp_path, script) as (repository, seen):
        for fate in FATES:
            running, answered = submitted(repository)
            assert script.started.acquire(timeout=WAIT_S)
            seen.clear()
            kill.armed = 1
            pending, over = submitted(repository)
            assert over.wait(WAIT_S)
            assert f"ended with InjectedError (injected); {fate}" in str(pending.error)
            check_down(await_down(seen), ":timeouts", fate)
            if fate is FATES[0]:
                wait_until(lambda: rows(repository) == [("m", "1", "READY", "")])
            script.open_gate()
            assert answered.wait(WAIT_S)
            assert (running.answer, running.error) == (b"answer", None)
            script.gate = threading.Event()
        script.open_gate()
        check_down(rows(repository)[0], ":timeouts", FATES[1])


def test_the_thread_that_polls_is_killed_once_and_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = killer(monkeypatch, ModelRepository, "_look", "repository poll")
    with opened(tmp_path, Script(), ModelControlOptions(ModelControlMode.POLL, poll_s=0.01)) as (repository, seen):
        kill.armed = 1
        wait_until(lambda: not kill.armed)
        write_model(tmp_path, "n")
        wait_until(lambda: "n" in repository)
        assert any(row[2:] == ("READY", reason_of_poll("it begins again in 0 s")) for index in seen for row in index)
        assert rows(repository) == [("m", "1", "READY", ""), ("n", "1", "READY", "")]
        kill.armed = 1
        reason = reason_of_poll("it has ended for the second time: restart the server")
        wait_until(lambda: rows(repository) == [("m", "1", "READY", reason), ("n", "1", "READY", reason)])
        assert ask(repository) == 3.0
        assert repository.all_ready


def reason_of_poll(fate: str) -> str:
    return f"the thread 'repository poll' ended with InjectedError (injected); {fate}"


def test_the_thread_that_watches_clients_is_killed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kill = killer(monkeypatch, SlowClients, "_expire", "slow-clients")
    kill.armed = 1
    cut: list[Fault] = []

    class Client:
        client = "test"

        def cut_off(self, fault: Fault, text: str) -> None:
            cut.append(fault)

    clients = SlowClients(0.01)
    clients.reading(Client(), 1)
    clients.start()
    wait_until(lambda: cut == [Fault.READS_NOTHING])
    assert not kill.armed
    clients.close()
