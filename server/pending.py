# SPDX-License-Identifier: Apache-2.0
"""A request between its arrival and its answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypersonic.server.errors import ServerError
from hypersonic.server.request import CheckedRequest
from hypersonic.server.statistics import RunTimes

#: one output's bytes, in order
Chunks = Sequence[bytes | memoryview]
#: (request, chunks of each of the model's outputs) -> the answer as the front end sends it; called on the thread that ran it
Frame = Callable[[CheckedRequest, Sequence[Chunks]], bytes]


class Part(NamedTuple):
    """The answered rows of one run of a request that needs several. outputs: copies, one per output of the model."""

    first_row: int
    outputs: tuple[bytes, ...]
    times: RunTimes


class PendingRequest:
    """A checked request, its place in time, and the latch its front end's thread waits on.

    The front end's thread makes it, submits it and waits; the batcher and the thread that runs its batch do the rest: the
    fields below are theirs, under the batcher's lock. Completed exactly once, with an answer or an error.
    """

    __slots__ = (
        "_latch", "answer", "arrived_ns", "enqueued_ns", "error", "expires_ns", "frame", "in_flight", "parts", "request",
        "rows_left", "timeouts", "times",
    )  # fmt: skip

    def __init__(self, request: CheckedRequest, frame: Frame, arrived_ns: int) -> None:
        self.request = request
        self.frame = frame
        self.arrived_ns = arrived_ns
        self.enqueued_ns = 0
        self.expires_ns = 0
        #: rows whose run has not landed
        self.rows_left = request.rows
        #: runs under way that carry rows of this request
        self.in_flight = 0
        #: instances that hung with rows of this request
        self.timeouts = 0
        self.parts: list[Part] = []
        self.answer: bytes | None = None
        self.error: ServerError | None = None
        self.times: RunTimes | None = None
        self._latch = threading.Lock()
        self._latch.acquire()

    @property
    def completed(self) -> bool:
        return not self._latch.locked()

    def prepare(self, outputs: Sequence[Chunks], times: RunTimes) -> None:
        """Frame the answer; the outputs' buffers may be reused on return. release() follows."""
        try:
            self.answer = self.frame(self.request, outputs)
        except ServerError as error:
            self.error = error
        self.times = times._replace(answered_ns=time.monotonic_ns())

    def release(self) -> None:
        """Completed: let the front end's thread go."""
        self._latch.release()

    def fail(self, error: ServerError) -> None:
        """Completed without an answer."""
        self.error = error
        self.release()

    def wait(self, timeout_ns: int = 0) -> bool:
        """Whether it is completed; waits `timeout_ns` for that, 0 = for ever."""
        acquired = self._latch.acquire(timeout=timeout_ns / 1e9 if timeout_ns else -1)
        if acquired:
            self._latch.release()
        return acquired


class Share(NamedTuple):
    """Consecutive rows of one request: what waits in the queue and what a run carries."""

    pending: PendingRequest
    first_row: int
    rows: int

    @property
    def whole(self) -> bool:
        """Whether the request is answered by this one run."""
        return self.rows == self.pending.request.rows

    @property
    def tensors(self) -> tuple[memoryview, ...]:
        """The bytes of these rows, one view per input."""
        request = self.pending.request
        if self.whole:
            return request.tensors
        start, stop = self.first_row, self.first_row + self.rows
        return tuple(t[start * len(t) // request.rows : stop * len(t) // request.rows] for t in request.tensors)
