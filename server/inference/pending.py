# SPDX-License-Identifier: Apache-2.0
"""A request between its arrival and its answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypersonic.server.errors import ServerError
from hypersonic.server.inference.answer import Answer
from hypersonic.server.inference.model import Sink
from hypersonic.server.inference.request import CheckedRequest, Frame
from hypersonic.server.inference.trace import StepTrace
from hypersonic.server.statistics.responses import ResponseOutcome
from hypersonic.server.statistics.times import RunTimes

#: the response parameter that marks a request's last answer
FINAL_RESPONSE = "triton_final_response"


class Part(NamedTuple):
    """The answered rows of one run of a request that needs several. answer: a copy."""

    first_row: int
    answer: Answer
    times: RunTimes


class PendingRequest:
    """A checked request, its place in time, and the latch its front end's thread waits on.

    The front end's thread makes it, submits it and waits; the batcher and the thread that runs its batch do the rest: the
    fields below are theirs, under the batcher's lock. Completed exactly once, with an answer or an error.

    client: whose turn it counts as. on_done: called once when it is completed, instead of letting a waiting thread go; on any
    thread, perhaps with the batcher's lock held. sink: of a decoupled model's request. on_run: called when the run that carried
    such a request is over, perhaps after on_done: answers leave as the model gives them. on_response: called for each of its
    answers: number, outcome, how long it took to compute and to frame.
    """

    __slots__ = (
        "_claim",
        "_error",
        "_latch",
        "_sink",
        "answer",
        "arrived_ns",
        "cancelled",
        "client",
        "completion_queue",
        "enqueued_ns",
        "error_response",
        "expires_ns",
        "first_response_ns",
        "frame",
        "in_flight",
        "last_response_ns",
        "level",
        "lost_run",
        "null",
        "on_done",
        "on_response",
        "on_run",
        "parts",
        "rank",
        "request",
        "responses",
        "rows_left",
        "size_bytes",
        "timeouts",
        "times",
        "trace",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        request: CheckedRequest,
        frame: Frame,
        arrived_ns: int,
        *,
        client: str = "",
        on_done: Callable[[PendingRequest], None] | None = None,
        on_run: Callable[[PendingRequest], None] | None = None,
        on_response: Callable[[int, ResponseOutcome, int, int], None] | None = None,
        sink: Sink | None = None,
    ) -> None:
        self.request = request
        self.frame = frame
        self.arrived_ns = arrived_ns
        self.client = client
        self.on_done = on_done
        self.on_run = on_run
        self.on_response = on_response
        self._sink = sink
        self.enqueued_ns = 0
        self.expires_ns = 0
        #: priority level, and the place in the queue: the smaller the earlier
        self.level = 0
        self.rank: tuple[int, int, int, int] = (0, 0, 0, 0)
        self.size_bytes = 0
        #: rows whose run has not ended
        self.rows_left = request.rows
        #: pieces of it in the queue
        self.waiting = 0
        #: runs under way that carry rows of this request
        self.in_flight = 0
        #: instances that were lost with rows of this request
        self.timeouts = 0
        #: whoever was in the first of these runs with it; it runs alone from then on
        self.lost_run: LostRun | None = None
        #: the client went away; what is under way is not worth finishing
        self.cancelled = False
        #: it fills a place in a run; there is nobody to answer
        self.null = False
        self.parts: list[Part] = []
        #: answers of a decoupled model so far
        self.responses = 0
        self.first_response_ns = 0
        #: when the last of them left, or the run began
        self.last_response_ns = 0
        #: the first error among them
        self.error_response: ServerError | None = None
        self.answer: Any = None
        self._error: ServerError | None = None
        self.times: RunTimes | None = None
        #: of a sampled request; what its model asks other models belongs to it
        self.trace: StepTrace | None = None
        #: keeps answers in the order of requests, where the model wants that
        self.completion_queue: CompletionQueue | None = None
        self._claim = threading.Lock()
        self._latch = threading.Lock()
        self._latch.acquire()

    @property
    def error(self) -> ServerError | None:
        """Why it failed; an object of its own, which its thread may raise and write on."""
        return self._error

    @error.setter
    def error(self, error: ServerError | None) -> None:
        """Keep a copy: `error` may be that of a whole batch."""
        self._error = None if error is None else error.copy()

    @property
    def completed(self) -> bool:
        return self._claim.locked()

    def prepare(self, answer: Answer, times: RunTimes) -> None:
        """Frame the answer; the outputs' buffers may be reused on return. release() follows."""
        try:
            self.answer = self.frame(self.request, answer)
        except ServerError as error:
            self.error = error
        self.times = times._replace(answered_ns=time.monotonic_ns())

    def begin_run(self) -> None:
        """A run that carries a decoupled model's request begins."""
        self.last_response_ns = time.monotonic_ns()

    def respond(self, answer: Answer, *, final: bool = False) -> None:
        """One answer of a decoupled model; the outputs' buffers may be reused on return. final: the last one; end() follows.

        Raises ServerError when it cannot be framed; does nothing once the request is completed.
        """
        if self._sink is None or self.completed:
            return
        came_ns = time.monotonic_ns()
        framed = self.frame(self.request, answer._replace(parameters={**answer.parameters, FINAL_RESPONSE: final}))
        self._responded(ResponseOutcome.SUCCESS, came_ns)
        self._sink.respond(framed)

    def respond_error(self, error: ServerError) -> None:
        """An answer of a decoupled model that is an error; others may follow, and the request has failed whatever they are."""
        if self._sink is None or self.completed:
            return
        self.error_response = self.error_response or error.copy()
        self._responded(ResponseOutcome.FAIL, time.monotonic_ns())
        self._sink.respond_error(error)

    def _responded(self, outcome: ResponseOutcome, came_ns: int) -> None:
        """One more answer, counted before its client knows of it."""
        now_ns = time.monotonic_ns()
        self.responses += 1
        if self.responses == 1 and outcome in (ResponseOutcome.SUCCESS, ResponseOutcome.FAIL):
            self.first_response_ns = now_ns
        if self.on_response is not None:
            began_ns = self.last_response_ns or came_ns
            self.on_response(self.responses - 1, outcome, came_ns - began_ns, now_ns - came_ns)
        self.last_response_ns = now_ns

    def end(self, error: ServerError | None = None, *, announced: bool = False) -> None:
        """A decoupled model has no more answers to it; safe to call twice. announced: its last answer said so itself."""
        if not self.completed and not announced:
            outcome = ResponseOutcome.EMPTY if error is None else ResponseOutcome.FAIL
            self._responded(ResponseOutcome.CANCEL if self.cancelled else outcome, time.monotonic_ns())
        self.error = self.error or error
        self.release()

    def end_run(self, times: RunTimes) -> None:
        """The run that carried a decoupled model's request is over; its last answer has left before, or is still to come."""
        self.times = times
        if self.on_run is not None:
            self.on_run(self)

    def release(self) -> None:
        """Completed: let the front end's thread go. Does nothing the second time."""
        if not self._claim.acquire(blocking=False):
            return
        if self.completion_queue is not None:
            self.completion_queue.release_completed()
        else:
            self.finish()

    def finish(self) -> None:
        """Tell who waits for it. Once, after it is completed."""
        if self.on_done is not None:
            self.on_done(self)
        else:
            self._latch.release()

    def fail(self, error: ServerError) -> None:
        """Completed without an answer."""
        self.error = error
        self.release()

    def wait(self, timeout_ns: int = 0) -> bool:
        """Whether it is completed and its turn has come; waits `timeout_ns` for that, 0 = for ever."""
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
    def tensors(self) -> tuple[memoryview | None, ...]:
        """The bytes of these rows, one view per input."""
        request = self.pending.request
        if self.whole:
            return request.tensors
        start, stop = self.first_row, self.first_row + self.rows
        return tuple(
            None if t is None else t[start * len(t) // request.rows : stop * len(t) // request.rows] for t in request.tensors
        )


class LostRun:
    """The requests of one lost run, and how many instances they have ended since, one by one; under their batcher's lock."""

    def __init__(self, members: Sequence[PendingRequest]) -> None:
        self.members = members
        self.losses = 0


class CompletionQueue:
    """Lets completed requests go in the order in which they came: preserve_ordering."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[PendingRequest] = deque()

    def add(self, pending: PendingRequest) -> None:
        """The request has been queued."""
        pending.completion_queue = self
        with self._lock:
            self._waiting.append(pending)

    def release_completed(self) -> None:
        """One more request is completed: let go whoever is next."""
        with self._lock:
            while self._waiting and self._waiting[0].completed:
                self._waiting.popleft().finish()
