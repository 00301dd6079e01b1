# SPDX-License-Identifier: Apache-2.0
"""The future of a call that was split into several requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from hypersonic.client.attempts.request import Result


class JoinedFuture(Future[Result]):
    """Has its result when all parts have theirs. If a part fails, this fails with its exception and cancels the others."""

    def __init__(self, count: int, join: Callable[[list[Result]], Result]) -> None:
        super().__init__()
        self._join = join
        self._lock = threading.Lock()
        self._parts: dict[int, Future[Result]] = {}
        self._left = count
        self._settled = not count
        if not count:
            self.set_result(join([]))

    def add(self, place: int, part: Future[Result]) -> None:
        """Add a part.

        Args:
            place: its position among the parts, from 0.
        """
        with self._lock:
            self._parts[place] = part
        part.add_done_callback(self._ended)
        if self.cancelled():
            part.cancel()

    def cancel(self) -> bool:
        """Cancel all parts. Returns False if the future is done already."""
        cancelled = super().cancel()
        if cancelled:
            self._cancel_parts()
        return cancelled

    def _ended(self, part: Future[Result]) -> None:
        with self._lock:
            self._left -= 1
            last = not self._left
        if part.cancelled() or part.exception() is not None:
            self._fail(CancelledError() if part.cancelled() else part.exception())
        elif last:
            self._finish()

    def _finish(self) -> None:
        if self._claim():
            try:
                self.set_result(self._join([self._parts[place].result() for place in sorted(self._parts)]))
            except Exception as error:  # noqa: BLE001 - the future raises it, whatever it is
                self.set_exception(error)

    def _fail(self, error: BaseException | None) -> None:
        if self._claim():
            self.set_exception(error)
            self._cancel_parts()

    def _claim(self) -> bool:
        """Return whether the caller is to settle this future: only the first caller is, and none after a cancellation."""
        with self._lock:
            first, self._settled = not self._settled, True
        return first and self.set_running_or_notify_cancel()

    def _cancel_parts(self) -> None:
        with self._lock:
            parts = tuple(self._parts.values())
        for part in parts:
            part.cancel()
