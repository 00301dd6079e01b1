# SPDX-License-Identifier: Apache-2.0
"""The future of a call that was split into several requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial

from hypersonic.client.attempts.request import Result


class JoinedFuture(Future[Result]):
    """Has its result when all parts have theirs. If a part fails, this fails with its exception and cancels the others.

    Args:
        count: of parts.
        join: makes the result of those of the parts.
        again: called with this future and the failure of a part; True: it will call restart() or fail().

    Attributes:
        turn: of the parts that count; a failure ends it.
    """

    def __init__(
        self,
        count: int,
        join: Callable[[list[Result]], Result],
        again: Callable[[JoinedFuture, BaseException], bool] | None = None,
    ) -> None:
        super().__init__()
        self._join, self._again = join, again
        self._lock = threading.Lock()
        self._parts: dict[int, Future[Result]] = {}
        self._left = count
        self._settled = not count
        self.turn = 0
        if not count:
            self.set_result(join([]))

    def add(self, place: int, part: Future[Result], turn: int = 0) -> None:
        """Add a part.

        Args:
            place: its position among the parts, from 0.
            turn: in which it was started.
        """
        with self._lock:
            late = turn != self.turn
            if not late:
                self._parts[place] = part
        part.add_done_callback(partial(self._ended, turn))
        if late or self.cancelled():
            part.cancel()

    def cancel(self) -> bool:
        """Cancel all parts. Returns False if the future is done already."""
        cancelled = super().cancel()
        if cancelled:
            self._again = None
            self._cancel_parts()
        return cancelled

    def restart(self, count: int) -> None:
        """Forget the parts, and expect `count` new ones."""
        with self._lock:
            self._left = count

    def fail(self, error: BaseException) -> None:
        """Settle the future with an exception, and cancel the parts."""
        if self._claim():
            self.set_exception(error)
            self._cancel_parts()

    def _ended(self, turn: int, part: Future[Result]) -> None:
        error = CancelledError() if part.cancelled() else part.exception()
        if error is not None:
            self._failed(turn, error)
            return
        with self._lock:
            if turn != self.turn:
                return
            self._left -= 1
            last = not self._left
        if last:
            self._finish()

    def _failed(self, turn: int, error: BaseException) -> None:
        with self._lock:
            if turn != self.turn:
                return
            self.turn += 1  # the other parts of this turn do not count any more
            again = self._again
            parts, self._parts = self._parts, {}
        for part in parts.values():
            part.cancel()
        if again is None or self.done() or not again(self, error):
            self.fail(error)

    def _finish(self) -> None:
        if self._claim():
            try:
                self.set_result(self._join([self._parts[place].result() for place in sorted(self._parts)]))
            except Exception as error:  # noqa: BLE001 - the future raises it, whatever it is
                self.set_exception(error)

    def _claim(self) -> bool:
        """Return whether the caller is to settle this future: only the first caller is, and none after a cancellation."""
        with self._lock:
            first, self._settled = not self._settled, True
        self._again = None  # it holds the inputs
        return first and self.set_running_or_notify_cancel()

    def _cancel_parts(self) -> None:
        with self._lock:
            parts = tuple(self._parts.values())
        for part in parts:
            part.cancel()
