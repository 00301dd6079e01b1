# SPDX-License-Identifier: Apache-2.0
"""Pump: processes items one after the other, in order, on a thread that exists only while there are items."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)
_Item = TypeVar("_Item")
#: how long a thread waits for the next item before it ends, in seconds
_LINGER_S = 1.0


class Pump(Generic[_Item]):
    """A queue of items and the thread that processes them. Any thread may call put()."""

    def __init__(self, name: str, work: Callable[[_Item], bool], on_failure: Callable[[], None]) -> None:
        """Create a Pump.

        Args:
            name: of the thread.
            work: called with each item, on one thread at a time, until it returns False.
            on_failure: called when `work` has raised an exception, or when no thread can be started.
        """
        self._name = name
        self._work = work
        self._on_failure = on_failure
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = False

    def put(self, item: _Item) -> None:
        """Add an item, and start a thread if none is running. Raises nothing."""
        self._items.put(item)
        if not self._running:
            self._start()

    def put_last(self, item: _Item) -> None:
        """Add the last item, whose work must not block. It is processed on the calling thread if no other thread is running."""
        self._items.put(item)
        with self._lock:
            if self._running:
                return
            self._running = True
        self._run()

    def drain(self) -> list[_Item]:
        """Remove and return the items whose processing has not begun."""
        items = []
        try:
            while True:
                items.append(self._items.get_nowait())
        except queue.Empty:
            return items

    def _start(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:  # no memory for a stack
            _LOG.exception("no thread for %s", self._name)
            self._running = False
            self._on_failure()

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None:
                if not self._work(item[0]):
                    return  # items added from now on are never processed
        except Exception:  # noqa: BLE001 - the owner has to learn of the failure
            _LOG.exception("%s failed", self._name)
            self._on_failure()

    def _next(self) -> tuple[_Item] | None:
        """Return the next item in a tuple, or None after _LINGER_S without one; put() then starts a new thread."""
        while True:
            try:
                return (self._items.get(timeout=_LINGER_S),)
            except queue.Empty:
                with self._lock:
                    self._running = False
                    if self._items.empty():
                        return None
                    self._running = True
