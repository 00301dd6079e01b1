# SPDX-License-Identifier: Apache-2.0
"""Signals: the termination signals for which the main thread waits."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: used instead of a signal's number: the server cannot start
FAILED = -1
#: polling interval in seconds for signals that the kernel delivered to another thread
_LOOK_S = 0.5


class Signals:
    """A queue of termination signals. put() is safe inside a signal handler, where locks and events are not."""

    def __init__(self) -> None:
        """Begin without signals."""
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._again = False

    def put(self, number: int) -> None:
        """Add a signal, or FAILED."""
        self._received.put(number)

    def wait(self) -> int:
        """Wait for the next signal and return its number, or FAILED if the server cannot start.

        Python runs signal handlers only on the main thread, and does not wake it if the kernel delivered the signal to
        another thread. The main thread therefore polls.
        """
        while True:
            with suppress(queue.Empty):
                return self._received.get(timeout=_LOOK_S)

    def patience(self, seconds: float) -> bool:
        """Wait up to `seconds` for another signal. Returns True if none has arrived."""
        deadline = time.monotonic() + seconds
        while not self._again and (left_s := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._again = self._received.get(timeout=min(left_s, 0.05)) != FAILED
        with suppress(queue.Empty):
            while not self._again:
                self._again = self._received.get_nowait() != FAILED
        return not self._again


@contextmanager
def termination_signals() -> Iterator[Signals]:
    """Put SIGTERM and SIGINT into a queue during the `with` statement. Main thread only."""
    signals = Signals()
    before = {number: signal.signal(number, lambda n, _frame: signals.put(n)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
