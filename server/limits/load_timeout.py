# SPDX-License-Identifier: Apache-2.0
"""LoadTimeout: limits how long the load of a model version may take, and gives up a load that does not end.

    caller:  run(work) ------- waits -------> the result, or ModelLoadError when the time is up or the server stops
    thread:       work() ---------------------------------------> too late: discard(result)

A thread cannot be ended from outside. A hung thread is left running; give_up() may end what it waits for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from hypersonic.server.errors import ModelLoadError

_LOG = logging.getLogger(__name__)
OPTION = "--model-load-timeout-secs"
_STOPPED = "the server is shutting down"
Result = TypeVar("Result")


def too_long(seconds: float) -> str:
    """Return the reason of a load that did not end in time."""
    return f"did not load within {seconds:g} s ({OPTION})"


class _Attempt(Generic[Result]):
    """One piece of work on a thread of its own."""

    def __init__(self, name: str, work: Callable[[], Result], discard: Callable[[Result], None]) -> None:
        self.over = threading.Event()
        self._name, self._work, self._discard = name, work, discard
        self._lock = threading.Lock()
        self._given_up = False
        self._result: list[Result] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=f"load {name}", daemon=True).start()

    def _run(self) -> None:
        try:
            result = [self._work()]
        except BaseException as error:  # noqa: BLE001 - take() raises it again
            result, self._error = [], error
        with self._lock:
            self._result = result
            self.over.set()
            if not self._given_up:
                return
        _LOG.warning("%s: its load, which was given up, has ended", self._name)
        for late in result:
            self._discard(late)

    def take(self) -> Result | None:
        """Return the result; if there is none yet, abandon the work and return None. Raises the exception of the work."""
        with self._lock:
            if self._error is not None:
                raise self._error
            self._given_up = not self._result
            return self._result[0] if self._result else None


class LoadTimeout:
    """Runs loads with a time limit, each on a thread of its own. Any thread may use it."""

    def __init__(self, seconds: float = 0.0) -> None:
        """seconds: of each load, 0 = no limit."""
        self.seconds = seconds
        #: how many loads were given up
        self.abandoned = 0
        self._lock = threading.Lock()
        self._stopped = False
        self._waiting: set[threading.Event] = set()

    def run(
        self,
        name: str,
        work: Callable[[], Result],
        discard: Callable[[Result], None] = lambda _: None,
        give_up: Callable[[], None] = lambda: None,
    ) -> Result:
        """Run `work` and return its result.

        discard: called with a result that is too late. give_up: called once if the work is given up. Raises ModelLoadError if
        the work does not end in time, and the exceptions of the work.
        """
        attempt = _Attempt(name, work, discard)
        with self._lock:
            self._waiting.add(attempt.over)
            if self._stopped:
                attempt.over.set()
        try:
            attempt.over.wait(self.seconds or None)
        finally:
            with self._lock:
                self._waiting.discard(attempt.over)
        result = attempt.take()
        if result is None:
            self.abandoned += 1
            reason = _STOPPED if self._stopped else too_long(self.seconds)
            _LOG.error("%s: its load is given up: %s", name, reason)
            give_up()
            raise ModelLoadError(reason)
        return result

    def check(self) -> None:
        """Raise ModelLoadError after stop()."""
        if self._stopped:
            raise ModelLoadError(_STOPPED)

    def stop(self) -> None:
        """Give up all loads, including later ones."""
        with self._lock:
            self._stopped = True
            for over in self._waiting:
                over.set()
