# SPDX-License-Identifier: Apache-2.0
"""Unary: the one answer to one request, for a front end that can send it without a waiting thread.

thread of the call:  begin ---- over? --> take() and send
                           \\--- not yet --> later(send): on the thread that ends the request
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from hypersonic.server.errors import BackendError, ServerError

_LOG = logging.getLogger(__name__)


def no_answer() -> BackendError:
    """Return the error of a request that ended with neither an answer nor an error (INTERNAL)."""
    return BackendError("the request ended without an answer")


class Unary:
    """A Sink (model.py) for one answer. Any thread may call its methods.

    Args:
        finish: converts the answer for the front end; called once, by take(). request_id, model_name: for the error's text and
            the log.
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
        """Store the answer."""
        self._answer = framed

    def respond_error(self, error: ServerError) -> None:
        """Store an error as the answer."""
        self._error = error

    def end(self, error: ServerError | None) -> None:
        """Mark the request as over and call the function that later() registered, if any."""
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
        """Call `then` when the request is over; return False, without calling it, if it is over already."""
        with self._lock:
            if not self.over:
                self._then = then
            return not self.over

    def wait(self) -> None:
        """Block until the request is over."""
        latch = threading.Event()
        if self.later(latch.set):
            latch.wait()

    def take(self) -> Any:
        """Return the answer as converted by finish(). Raises ServerError for a request that failed."""
        error = self._error
        if error is None and self._answer is None:
            error = no_answer()
        if error is not None:
            raise self.named(error).with_traceback(None)
        return self.finish(self._answer)

    def named(self, error: ServerError) -> ServerError:
        """Return the error with the request's id and model set."""
        error.request_id, error.model_name = self.request_id, self.model_name or error.model_name
        return error
