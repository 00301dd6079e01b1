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
from hypersonic.client.errors import ClientError, ClosedError

Submit = Callable[[Any], Future[Result]]


def map_ordered(
    submit: Submit, events: Iterable[Any], window: int, *, return_exceptions: bool = False
) -> Iterator[Result | ClientError]:
    """Yield the results in the order of the events.

    Args:
        window: the most events in flight or not yet yielded.
        return_exceptions: yield the error of an event that fails, and go on.
    """
    waiting: deque[Future[Result]] = deque()
    index = 0
    try:
        for number, event in enumerate(events):
            waiting.append(_submitted(submit, event, number, keep=return_exceptions))
            while waiting and (len(waiting) >= window or waiting[0].done()):
                yield of_event(waiting.popleft(), index, keep=return_exceptions)
                index += 1
        while waiting:
            yield of_event(waiting.popleft(), index, keep=return_exceptions)
            index += 1
    finally:
        for future in waiting:
            future.cancel()


def map_unordered(
    submit: Submit, events: Iterable[Any], window: int, *, return_exceptions: bool = False
) -> Iterator[Result | ClientError]:
    """Yield the results in the order in which they arrive.

    Args:
        window, return_exceptions: see map_ordered.
    """
    ended: queue.SimpleQueue[tuple[int, Future[Result]]] = queue.SimpleQueue()
    running: dict[int, Future[Result]] = {}

    def take() -> Result | ClientError:
        index, future = ended.get()
        del running[index]
        return of_event(future, index, keep=return_exceptions)

    def put(index: int) -> Callable[[Future[Result]], None]:
        return lambda future: ended.put((index, future))

    try:
        for index, event in enumerate(events):
            running[index] = _submitted(submit, event, index, keep=return_exceptions)
            running[index].add_done_callback(put(index))
            while running and (len(running) >= window or not ended.empty()):
                yield take()
        while running:
            yield take()
    finally:
        for future in running.values():
            future.cancel()


def of_event(future: Future[Result], index: int, *, keep: bool) -> Result | ClientError:
    """Return the result of an event with its index, or its error with `keep`; without, raise that error."""
    try:
        return replace(future.result(), index=index)
    except ClientError as error:
        numbered = with_index(error, index)
        if not keep or isinstance(error, ClosedError):
            raise
        return numbered


def with_index(error: ClientError, index: int) -> ClientError:
    """Return the error with the index of its event, which a traceback shows too."""
    if error.index is None:
        error.index = index
        error.add_note(f"event {index} of map()")
    return error


def _submitted(submit: Submit, event: Any, index: int, *, keep: bool) -> Future[Result]:
    """Return the future of an event; an error of making its request is the future's with `keep`."""
    try:
        return submit(event)
    except ClientError as error:
        with_index(error, index)
        if not keep or isinstance(error, ClosedError):
            raise
        failed: Future[Result] = Future()
        failed.set_exception(error)
        return failed
