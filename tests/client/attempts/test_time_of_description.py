# SPDX-License-Identifier: Apache-2.0
"""A call that has to ask for the model's description first ends in its own time; and close() ends a call that waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import (
    AsyncClient,
    Client,
    ClosedError,
    DeadlineError,
    Fallback,
    OtherServer,
    Rectangular,
    SameServer,
    Timeout,
)
from tests.support.scripted_server import Script, fail
from tests.support.waiting import wait_until

X = np.arange(80, dtype=np.float32).reshape(20, 4)
SHORT_S = 0.3
#: far more than SHORT_S, also on a busy machine
LONG_S = 20.0


@pytest.fixture
def silent(script: Script) -> Iterator[threading.Event]:
    """The server does not describe its model until the event is set."""
    answer = threading.Event()
    script.describe = lambda _metadata: answer.wait(2 * LONG_S)
    yield answer
    answer.set()


CALLS: dict[str, Callable[[Any], Any]] = {
    "infer": lambda model: model.infer(X, timeout=SHORT_S),
    "submit": lambda model: model.submit(X, timeout=SHORT_S),
    "map": lambda model: list(model.map([X], timeout=SHORT_S)),
    "entries": lambda model: model.infer(Rectangular([X]), timeout=SHORT_S),
    "stream": lambda model: next(model.stream(X[:1], timeout_s=SHORT_S)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_does_not_wait_longer_for_the_description_than_its_timeout(
    silent: threading.Event, address: str, name: str
) -> None:
    begin = time.monotonic()
    with Client(address) as client, pytest.raises(DeadlineError, match=r"the time is up after 0\.3 s"):
        CALLS[name](client.model("double"))
    assert time.monotonic() - begin < LONG_S


@pytest.mark.parametrize("entries", [False, True])
def test_asyncio_does_not_either(silent: threading.Event, address: str, entries: bool) -> None:
    async def ask() -> None:
        async with AsyncClient(address) as client:
            await client.model("double").infer(Rectangular([X]) if entries else X, timeout=SHORT_S)

    begin = time.monotonic()
    with pytest.raises(DeadlineError):
        asyncio.run(ask())
    assert time.monotonic() - begin < LONG_S


def test_a_call_that_waits_for_the_description_of_another_call_has_its_own_time(silent: threading.Event, address: str) -> None:
    with Client(address) as client:
        model, got = client.model("double"), []
        first = threading.Thread(target=lambda: got.append(model.infer(X)))
        first.start()
        wait_until(lambda: client.engine._asked)
        with pytest.raises(DeadlineError, match=r"the metadata of model 'double': the time is up after 0\.3 s"):
            model.infer(X, timeout=SHORT_S)
        silent.set()
        first.join()
        np.testing.assert_array_equal(got[0], 2 * X)


def test_a_call_is_answered_though_the_time_of_the_one_that_asked_for_the_description_is_up(
    silent: threading.Event, address: str
) -> None:
    with Client(address) as client:
        model, errors = client.model("double"), []

        def ask() -> None:
            with pytest.raises(DeadlineError) as error:
                model.infer(X, timeout=1)
            errors.append(error.value)
            silent.set()

        first = threading.Thread(target=ask)
        first.start()
        wait_until(lambda: client.engine._asked)
        np.testing.assert_array_equal(model.infer(X), 2 * X)
        first.join()
        assert len(errors) == 1


def test_a_fallback_answers_when_the_time_of_the_description_is_up(silent: threading.Event, address: str) -> None:
    fallback = Fallback(lambda inputs: {"y": 2 * inputs["x"]})
    with Client(address, retry=[OtherServer(2), fallback]) as client:
        results = []
        model = client.model("double")
        ask = threading.Thread(target=lambda: results.append(model.result({"x": X}, timeout=3 * SHORT_S)))
        ask.start()
        wait_until(lambda: client.engine._asked)
        results.append(model.result({"x": X}, timeout=SHORT_S))
        ask.join()
    assert [result.server for result in results] == ["fallback", "fallback"]


@pytest.mark.parametrize("retry", [(OtherServer(1000),), (SameServer(1000),), (Fallback(lambda _inputs: {"y": 2 * X}),)])
def test_close_ends_a_call_that_waits_on_its_own_thread(script: Script, address: str, retry: tuple[Any, ...]) -> None:
    """It is neither tried again at the closed connections, nor answered by the fallback."""
    held = threading.Event()

    def wait(_request: Any, _context: grpc.ServicerContext) -> None:
        held.wait(LONG_S)

    script.infer = wait
    client, errors = Client(address, retry=retry, timeout=Timeout(total_s=2 * LONG_S)), []

    def ask() -> None:
        with pytest.raises(ClosedError, match="the client was closed before the request ended") as error:
            client.model("double").infer(X[:1])
        errors.append(error.value)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: script.calls["ModelInfer"])
    client.close()
    thread.join(LONG_S)
    held.set()
    assert len(errors) == 1


def test_close_ends_the_pause_before_the_next_attempt(script: Script, address: str) -> None:
    script.infer = fail(grpc.StatusCode.UNAVAILABLE)
    client, ended = Client(address, retry=OtherServer(10_000), timeout=Timeout(total_s=100 * LONG_S)), []

    def ask() -> None:
        with pytest.raises(ClosedError):
            client.model("double").infer(X[:1])
        ended.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: script.calls["ModelInfer"] >= 3)
    client.close()
    thread.join(LONG_S)
    assert ended
