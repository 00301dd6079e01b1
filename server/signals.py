# SPDX-License-Identifier: Apache-2.0
"""Termination signals, as the main thread waits for them."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: in place of a signal's number: the server cannot start
FAILED = -1
#: polling interval in seconds for signals that came to another thread
_LOOK_S = 0.5


class Signals:
    """Termination signals as a queue. put() is safe inside a signal handler, where locks and events are not."""

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._again = False

    def put(self, number: int) -> None:
        self._received.put(number)

    def wait(self) -> int:
        """The next signal's number; FAILED when the server cannot start.

        Python runs handlers on the main thread alone, and does not wake it when the kernel gave the signal to another thread:
        so this thread looks by itself.
        """
        while True:
            with suppress(queue.Empty):
                return self._received.get(timeout=_LOOK_S)

    def patience(self, seconds: float) -> bool:
        """Wait that long for another signal; whether none came."""
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
    """SIGTERM and SIGINT go into the queue meanwhile. The main thread only."""
    signals = Signals()
    before = {number: signal.signal(number, lambda n, _frame: signals.put(n)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
