# SPDX-License-Identifier: Apache-2.0
"""Unary: the one answer of one request, where its front end can have it without a thread that waits.

thread of the call:  begin ---- over? --> take() and send
                           \\--- not yet --> later(send): on whichever thread it comes
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from hypersonic.server.errors import BackendError, ServerError

_LOG = logging.getLogger(__name__)


def no_answer() -> BackendError:
    """Of a request that ended without an answer and without an error."""
    return BackendError("the request ended without an answer")


class Unary:
    """A Sink (pending.py) for one answer. finish: what the front end makes of it, called once when it is taken.

    request_id, model_name: for the error's text and the log.
    """

    __slots__ = ("_answer", "_error", "_lock", "_then", "finish", "model_name", "over", "request_id")

    def __init__(self, finish: Callable[[Any], Any]) -> None:
        self.finish = finish
        self.request_id: str | None = None
        self.model_name = ""
        self.over = False
        self._answer: Any = None
        self._error: ServerError | None = None
        self._then: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def respond(self, framed: Any) -> None:
        self._answer = framed

    def respond_error(self, error: ServerError) -> None:
        self._error = error

    def end(self, error: ServerError | None) -> None:
        with self._lock:
            self._error = error or self._error
            self.over = True
            then = self._then
        if then is not None:
            try:
                then()
            except Exception:  # noqa: BLE001 - the model's thread has other answers to give
                _LOG.exception("an answer of '%s' could not be sent", self.model_name)

    def later(self, then: Callable[[], object]) -> bool:
        """Call `then` when it is over; False when it is already, and `then` is never called."""
        with self._lock:
            if not self.over:
                self._then = then
            return not self.over

    def wait(self) -> None:
        """Until it is over."""
        latch = threading.Event()
        if self.later(latch.set):
            latch.wait()

    def take(self) -> Any:
        """What finish() makes of the answer. Raises ServerError."""
        error = self._error
        if error is None and self._answer is None:
            error = no_answer()
        if error is not None:
            raise self.named(error).with_traceback(None)
        return self.finish(self._answer)

    def named(self, error: ServerError) -> ServerError:
        """The error, knowing of which request it is."""
        error.request_id, error.model_name = self.request_id, self.model_name or error.model_name
        return error
