# SPDX-License-Identifier: Apache-2.0
"""Collects when each request started and ended. The sender, the client's threads and the measuring thread share it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """A request.

    The times are those of time.perf_counter_ns().

    Attributes:
        due_ns: when it was to start.
        sent_ns: when it did.
        end_ns: of its answer or failure.
        error: "" if answered.
    """

    due_ns: int
    sent_ns: int
    end_ns: int
    error: str = ""


class Recorder:
    """The requests of one load. Any thread may use it.

    Attributes:
        stop: set to end the sender.
        enough: set when the window has its number of requests, and when the sender has ended.
    """

    def __init__(self) -> None:
        self.stop, self.enough = threading.Event(), threading.Event()
        self.backlog_limit_reached = False
        self.fault: BaseException | None = None
        self._idle = threading.Condition()
        self._samples: list[Sample] = []
        self._outstanding = 0
        self._wanted = 0

    @property
    def outstanding(self) -> int:
        """The requests that were sent and have not ended."""
        return self._outstanding

    def begin(self, due_ns: int | None = None) -> Callable[[Future[Any]], None]:
        """Count a request that is about to be sent; return the callback for its future.

        Args:
            due_ns: None is now.
        """
        sent_ns = time.perf_counter_ns()
        with self._idle:
            self._outstanding += 1

        def ended(future: Future[Any]) -> None:
            end_ns = time.perf_counter_ns()
            sample = Sample(sent_ns if due_ns is None else due_ns, sent_ns, end_ns, _error_of(future))
            with self._idle:
                self._samples.append(sample)
                self._outstanding -= 1
                if self._wanted:
                    self._wanted -= 1
                    if not self._wanted:
                        self.enough.set()
                if not self._outstanding:
                    self._idle.notify_all()

        return ended

    def mark(self, requests: int) -> int:
        """Begin the window and return the time. `enough` is set after this many requests have ended; 0: it is not."""
        with self._idle:
            self._wanted = requests
            return time.perf_counter_ns()

    def wait_idle(self, timeout_s: float) -> None:
        """Wait until all requests have ended."""
        with self._idle:
            self._idle.wait_for(lambda: not self._outstanding, timeout_s)

    def samples(self) -> list[Sample]:
        """Return the requests that have ended, in the order of their ends."""
        with self._idle:
            return sorted(self._samples, key=lambda sample: sample.end_ns)


def _error_of(future: Future[Any]) -> str:
    try:
        error = future.exception()
    except CancelledError:
        return "the request was cancelled"
    return "" if error is None else str(error) or type(error).__name__
