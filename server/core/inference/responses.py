# SPDX-License-Identifier: Apache-2.0
"""The answers of a decoupled model to one request: any number of them, possibly after its run is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypersonic.server.core.inference.model import Sink
from hypersonic.server.errors import ServerError
from hypersonic.server.statistics.responses import ResponseOutcome


class Responses:
    """The answers that a decoupled model has given to one request so far. The model's thread owns it.

    Attributes:
        count: answers given, errors among them.
        first_ns: when the first of them was sent, in monotonic ns; 0 before.
        error: the first error among them.

    Args:
        sink: receives the answers.
        on_response: called for each answer with its number, its outcome, and the times to compute and to frame it, in ns.
        on_run_end: called when the run that carried the request is over, possibly after its completion, since answers leave as
            the model gives them.
    """

    __slots__ = ("_last_ns", "_on_response", "count", "error", "first_ns", "on_run_end", "sink")

    def __init__(
        self,
        sink: Sink,
        on_response: Callable[[int, ResponseOutcome, int, int], None] = lambda *_: None,
        on_run_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.sink = sink
        self.on_run_end = on_run_end
        self._on_response = on_response
        self.count = 0
        self.first_ns = 0
        self.error: ServerError | None = None
        self._last_ns = 0  # when the last answer was sent, or when the run began

    def begin_run(self) -> None:
        """Record that the run begins."""
        self._last_ns = time.monotonic_ns()

    def add(self, outcome: ResponseOutcome, came_ns: int) -> None:
        """Count one more answer before its client receives it."""
        now_ns = time.monotonic_ns()
        self.count += 1
        if self.count == 1 and outcome in (ResponseOutcome.SUCCESS, ResponseOutcome.FAIL):
            self.first_ns = now_ns
        began_ns = self._last_ns or came_ns
        self._on_response(self.count - 1, outcome, came_ns - began_ns, now_ns - came_ns)
        self._last_ns = now_ns
