# SPDX-License-Identifier: Apache-2.0
"""Pump: work on items one after the other, in their order, on a thread that is there only while there are items."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)
_Item = TypeVar("_Item")
#: how long a thread waits for the next item before it ends
_LINGER_S = 1.0


class Pump(Generic[_Item]):
    """Any thread may put. work: called with each item, on one thread at a time; while it returns True."""

    def __init__(self, name: str, work: Callable[[_Item], bool], on_failure: Callable[[], None]) -> None:
        """name: of the thread. on_failure: called when the work raised, or there is no thread for it."""
        self._name = name
        self._work = work
        self._on_failure = on_failure
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = False

    def put(self, item: _Item) -> None:
        """Raises nothing."""
        self._items.put(item)
        if not self._running:
            self._start()

    def put_last(self, item: _Item) -> None:
        """The last one, whose work waits for nothing: done on this thread where none is at work."""
        self._items.put(item)
        with self._lock:
            if self._running:
                return
            self._running = True
        self._run()

    def drain(self) -> list[_Item]:
        """Take away the items that nobody has begun to work on."""
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
                    return  # and nothing put from now on is worked on
        except Exception:  # noqa: BLE001 - whoever waits for the work has to know
            _LOG.exception("%s failed", self._name)
            self._on_failure()

    def _next(self) -> tuple[_Item] | None:
        """The next item; None when none came for a while, and a thread is started for the one that does."""
        while True:
            try:
                return (self._items.get(timeout=_LINGER_S),)
            except queue.Empty:
                with self._lock:
                    self._running = False
                    if self._items.empty():
                        return None
                    self._running = True
