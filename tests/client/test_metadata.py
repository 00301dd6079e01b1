# SPDX-License-Identifier: Apache-2.0
"""Threads that need a model's description at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pytest

from hypersonic.client import Client, UnknownModelError
from hypersonic.client.pool.servers import Pool
from tests.support.scripted_server import Script, scripted_server
from tests.support.waiting import wait_until

X = np.arange(20, dtype=np.float32).reshape(5, 4)
THREADS = 8
T = TypeVar("T")


def at_once(function: Callable[[], T]) -> list[T]:
    """What each of the threads returns."""
    together = threading.Barrier(THREADS)

    def call() -> T:
        together.wait(30)
        return function()

    with ThreadPoolExecutor(THREADS) as threads:
        return [answer.result(60) for answer in [threads.submit(call) for _ in range(THREADS)]]


def test_one_of_them_asks_for_it() -> None:
    script = Script()
    with scripted_server(script) as address, Client(address) as client:
        for y in at_once(lambda: client.model("double").infer(X)):
            np.testing.assert_array_equal(y, 2 * X)
    assert (script.calls["ModelMetadata"], script.calls["ModelConfig"], script.calls["ModelInfer"]) == (1, 1, THREADS)


def test_all_get_the_error_and_the_next_request_asks_again() -> None:
    with scripted_server(Script()) as address, Client(address) as client:

        def error() -> str:
            with pytest.raises(UnknownModelError) as caught:
                client.model("triple").infer(X)
            return str(caught.value)

        assert len({*at_once(error), error()}) == 1


def test_each_server_is_asked_once_for_a_version_that_none_has() -> None:
    one, two = Script(), Script()
    with scripted_server(one) as a, scripted_server(two) as b, Client([a, b]) as client:
        client.model("double").infer(X)
        wait_until(lambda: all(server.state == "up" for server in client.statistics().servers))
        before = (one.calls["ModelMetadata"], two.calls["ModelMetadata"])
        with pytest.raises(UnknownModelError, match=r"has no model 'double' of version 7 \(it has double\)"):
            client.model("double", 7).infer(X)
        asked = (one.calls["ModelMetadata"] - before[0], two.calls["ModelMetadata"] - before[1])
    assert asked == (1, 1)


def test_when_the_one_that_asks_is_interrupted_another_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    asking, interrupt = threading.Event(), threading.Event()
    ready_for = Pool.ready_for

    def interrupted(*given: object) -> None:
        monkeypatch.setattr(Pool, "ready_for", ready_for)
        asking.set()
        assert interrupt.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(Pool, "ready_for", interrupted)
    with scripted_server(Script()) as address, Client(address) as client, ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: client.model("double").infer(X))
        assert asking.wait(30)
        second = threads.submit(lambda: client.model("double").infer(X))
        interrupt.set()
        with pytest.raises(KeyboardInterrupt):
            first.result(30)
        np.testing.assert_array_equal(second.result(30), 2 * X)
