# SPDX-License-Identifier: Apache-2.0
"""Admission: how many requests, and how many of their bytes, the server holds; and the door it closes to drain."""

from __future__ import annotations

import threading

from hypersonic.server.errors import BudgetError, ShuttingDownError


class Admission:
    """Front ends' threads enter and leave; the main thread closes the door and waits. limit_bytes: 0 = no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.requests = 0
        self.size_bytes = 0
        self.closed = False
        self._changed = threading.Condition(threading.Lock())

    def enter(self, size_bytes: int) -> None:
        """Raises ShuttingDownError once closed, BudgetError when these bytes would exceed the limit.

        A request alone in the server is let in whatever its size: it is in memory already.
        """
        with self._changed:
            if self.closed:
                raise ShuttingDownError
            if self.limit_bytes and self.requests and self.size_bytes + size_bytes > self.limit_bytes:
                raise BudgetError(
                    f"the requests in flight hold {self.size_bytes} bytes, {size_bytes} more exceed the limit of "
                    f"{self.limit_bytes}: send again later or to another server"
                )
            self.requests += 1
            self.size_bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        """The request's bytes are free again, whatever became of it."""
        with self._changed:
            self.requests -= 1
            self.size_bytes -= size_bytes
            if self.closed and not self.requests:
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more."""
        with self._changed:
            self.closed = True

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether everybody left in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.requests, timeout_s)
