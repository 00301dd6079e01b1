# SPDX-License-Identifier: Apache-2.0
"""Runs an iterator in a thread of its own, a bounded number of items ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeVar

T = TypeVar("T")

#: the maximum number of chunks that are read before they are requested
AHEAD = 2

_END = object()


def read_ahead(
    items: Generator[T, None, None],
    ahead: int = AHEAD,
    name: str = "columns-reader",
    interrupt: Callable[[], object] = lambda: None,
) -> Generator[T, None, None]:
    """Yield the items, which another thread produces, at most `ahead` of them before they are requested.

    An exception of `items` is raised here, after the items before it. Closing this generator closes `items` and ends the
    thread.

    Args:
        interrupt: called before the end of the thread is waited for; `items` end soon after it.
    """
    room = threading.Semaphore(ahead)
    stop = threading.Event()
    made: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            with closing(items):
                room.acquire()
                for item in items:
                    made.put((item, None))
                    del item
                    room.acquire()
                    if stop.is_set():
                        return
            made.put((_END, None))
        except BaseException as error:  # noqa: BLE001 - raised by the generator
            made.put((_END, error))

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is _END:
                return
            room.release()
            yield item
            del item
    finally:
        stop.set()
        interrupt()
        room.release()
        thread.join()
