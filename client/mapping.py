# SPDX-License-Identifier: Apache-2.0
"""Sends the events of an iterable, a bounded number at a time."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from hypersonic.client.attempts.request import Result

Submit = Callable[[Any], Future[Result]]


def map_ordered(submit: Submit, events: Iterable[Any], window: int) -> Iterator[Result]:
    """Yield the results in the order of the events.

    Args:
        window: the most events in flight or not yet yielded.
    """
    waiting: deque[Future[Result]] = deque()
    index = 0
    try:
        for event in events:
            waiting.append(submit(event))
            while waiting and (len(waiting) >= window or waiting[0].done()):
                yield replace(waiting.popleft().result(), index=index)
                index += 1
        while waiting:
            yield replace(waiting.popleft().result(), index=index)
            index += 1
    finally:
        for future in waiting:
            future.cancel()


def map_unordered(submit: Submit, events: Iterable[Any], window: int) -> Iterator[Result]:
    """Yield the results in the order in which they arrive.

    Args:
        window: see map_ordered.
    """
    ended: queue.SimpleQueue[tuple[int, Future[Result]]] = queue.SimpleQueue()
    running: dict[int, Future[Result]] = {}

    def take() -> Result:
        index, future = ended.get()
        del running[index]
        return replace(future.result(), index=index)

    def put(index: int) -> Callable[[Future[Result]], None]:
        return lambda future: ended.put((index, future))

    try:
        for index, event in enumerate(events):
            running[index] = submit(event)
            running[index].add_done_callback(put(index))
            while running and (len(running) >= window or not ended.empty()):
                yield take()
        while running:
            yield take()
    finally:
        for future in running.values():
            future.cancel()
