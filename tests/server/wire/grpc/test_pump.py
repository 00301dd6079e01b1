# SPDX-License-Identifier: Apache-2.0
"""Pump: every item once, in order, on one thread at a time, and no thread while there is nothing to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hypersonic.server.wire.grpc import pump
from hypersonic.server.wire.grpc.pump import Pump


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that end as soon as they find nothing, so that they meet those who put."""
    monkeypatch.setattr(pump, "_LINGER_S", 0.0001)


def running(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def pumping(name: str, work: Callable[[int], bool]) -> tuple[Pump[int], threading.Event]:
    failed = threading.Event()
    return Pump(name, work, failed.set), failed


def test_items_are_worked_on_in_order_by_one_thread_at_a_time() -> None:
    seen: list[int] = []
    enough = threading.Event()
    busy = threading.Lock()

    def work(item: int) -> bool:
        assert busy.acquire(blocking=False), "two threads"
        seen.append(item)
        busy.release()
        if item == 2999:
            enough.set()
        return True

    pumped, failed = pumping("in order", work)
    for n in range(3000):
        pumped.put(n)
        if n % 100 == 0:
            for thread in running("in order"):
                thread.join()
    assert enough.wait(60)
    assert seen == list(range(3000))
    for thread in running("in order"):
        thread.join(60)
    assert not running("in order")
    assert not failed.is_set()


def test_the_last_item_needs_no_thread_where_none_is_at_work() -> None:
    seen: list[tuple[int, str]] = []

    def work(item: int) -> bool:
        seen.append((item, threading.current_thread().name))
        return item != 0

    pumped, _ = pumping("to the last", work)
    pumped.put_last(0)
    pumped.put(1)
    assert seen == [(0, threading.current_thread().name)]
    assert pumped.drain() == [1]


def test_the_last_item_comes_after_those_before_it() -> None:
    seen: list[int] = []
    gate, over = threading.Event(), threading.Event()

    def work(item: int) -> bool:
        assert gate.wait(60)
        seen.append(item)
        if item == 0:
            over.set()
        return item != 0

    pumped, _ = pumping("after", work)
    for n in (3, 2, 1):
        pumped.put(n)
    pumped.put_last(0)
    gate.set()
    assert over.wait(60)
    assert seen == [3, 2, 1, 0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_fails_is_told() -> None:
    def work(item: int) -> bool:
        raise ValueError(item)

    pumped, failed = pumping("fails", work)
    pumped.put(1)
    assert failed.wait(60)


def test_a_thread_that_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    pumped, failed = pumping("none", lambda _: True)
    pumped.put(1)
    assert failed.is_set()
