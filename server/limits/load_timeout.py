# SPDX-License-Identifier: Apache-2.0
"""LoadTimeout: how long the load of a model version may take, and what becomes of a load that does not end.

    caller:  run(work) ------- waits -------> the result, or ModelLoadError when the time is up or the server stops
    thread:       work() ---------------------------------------> comes too late: discard(result)

A thread cannot be ended from outside. One that hangs is left alone; whoever can end what it waits for does so in give_up().
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
    """The reason of a load that did not end in time."""
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
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            result, self._error = [], error
        with self._lock:
            self._result = result
            self.over.set()
            if not self._given_up:
                return
        _LOG.warning("%s: what was given up has ended", self._name)
        for late in result:
            self._discard(late)

    def take(self) -> Result | None:
        """The result, or None: from now on it is too late. Raises what the work raised."""
        with self._lock:
            if self._error is not None:
                raise self._error
            self._given_up = not self._result
            return self._result[0] if self._result else None


class LoadTimeout:
    """seconds: 0 = no limit. Any thread may use it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        #: loads whose threads were left alone
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
        """Run `work` and return its result. Raises ModelLoadError when it did not end in time, and what it raises.

        discard: of a result that comes too late. give_up: called once when nobody waits for the work any more.
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
        """Raises ModelLoadError when nothing is loaded any more."""
        if self._stopped:
            raise ModelLoadError(_STOPPED)

    def stop(self) -> None:
        """Nobody waits for a load any more."""
        with self._lock:
            self._stopped = True
            for over in self._waiting:
                over.set()
