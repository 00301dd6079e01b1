# SPDX-License-Identifier: Apache-2.0
"""LoadTimeout: limits how long the load of a model version may take, and gives up a load that does not end.

::

    caller:  run(work) ------- waits -------> the result, or ModelLoadError when the time is up or the server stops
    thread:       work() ---------------------------------------> too late: discard(result)

A thread cannot be ended from outside. A hung thread is left running; give_up() may end what it waits for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from hypersonic.server.errors import ModelLoadError

_LOG = logging.getLogger(__name__)
OPTION = "--model-load-timeout-secs"
_STOPPED = "the server is shutting down"
Result = TypeVar("Result")


def too_long(seconds: float) -> str:
    """Return the reason of a load that did not end in time."""
    return f"did not load within {seconds:g} s ({OPTION})"


class LoadTimeout:
    """Runs loads with a time limit, each on a thread of its own. Any thread may use it."""

    def __init__(self, seconds: float = 0.0) -> None:
        """Create a LoadTimeout.

        Args:
            seconds: of each load, 0 = no limit.
        """
        self.seconds = seconds
        #: how many loads were given up
        self.abandoned = 0
        self._lock = threading.Lock()
        self._stopped = False
        #: the results that are waited for; a load that is given up is cancelled
        self._waiting: set[Future[Any]] = set()

    def run(
        self,
        name: str,
        work: Callable[[], Result],
        discard: Callable[[Result], None] = lambda _: None,
        give_up: Callable[[], None] = lambda: None,
    ) -> Result:
        """Run `work` and return its result.

        Args:
            discard: called with a result that is too late.
            give_up: called once if the work is given up.

        Raises:
            ModelLoadError: If the work does not end in time, and the exceptions of the work.
        """
        future: Future[Result] = Future()
        with self._lock:
            self._waiting.add(future)
            if self._stopped:
                future.cancel()
        threading.Thread(target=_settle, args=(name, work, discard, future), name=f"load {name}", daemon=True).start()
        try:
            return future.result(self.seconds or None)
        except (CancelledError, TimeoutError):
            if not future.cancel():  # it has just ended, or it is the exception of the work
                return future.result()
        finally:
            with self._lock:
                self._waiting.discard(future)
        self.abandoned += 1
        reason = _STOPPED if self._stopped else too_long(self.seconds)
        _LOG.error("%s: its load is given up: %s", name, reason)
        give_up()
        raise ModelLoadError(reason)

    def check(self) -> None:
        """Raise ModelLoadError after stop()."""
        if self._stopped:
            raise ModelLoadError(_STOPPED)

    def stop(self) -> None:
        """Give up all loads, including later ones."""
        with self._lock:
            self._stopped = True
            for future in self._waiting:
                future.cancel()


def _settle(name: str, work: Callable[[], Result], discard: Callable[[Result], None], future: Future[Result]) -> None:
    """Set the result or the exception of `work`; discard a result that nobody waits for any more."""
    result: list[Result] = []
    error: BaseException | None = None
    try:
        result.append(work())
    except BaseException as raised:  # noqa: BLE001 - the future raises it again
        error = raised
    if not future.set_running_or_notify_cancel():
        _LOG.warning("%s: its load, which was given up, has ended", name)
        for late in result:
            discard(late)
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(result[0])
