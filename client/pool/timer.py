# SPDX-License-Identifier: Apache-2.0
"""Calls functions later, on one thread that starts with the first of them."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class Timer:
    """Calls functions later. They must not block, because they run one after another."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._turn = itertools.count()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call` after `seconds`; never after close()."""
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._turn), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hypersonic-client-timer", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Discard the calls that are due, and end the thread."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
            thread = self._thread
        if thread and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while call := self._next():
            try:
                call()
            except Exception:  # noqa: BLE001 - the other calls still have to be made
                _LOG.exception("a timed call of the client failed")

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next call; None once closed."""
        with self._changed:
            while not self._closed:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
        return None
