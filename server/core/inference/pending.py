# SPDX-License-Identifier: Apache-2.0
"""A request between its arrival and its answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.model import Sink
from hypersonic.server.core.inference.request import CheckedRequest, Frame
from hypersonic.server.core.inference.trace import StepTrace
from hypersonic.server.errors import ServerError
from hypersonic.server.statistics.responses import ResponseOutcome
from hypersonic.server.statistics.times import RunTimes

#: the response parameter that marks a request's last answer
FINAL_RESPONSE = "triton_final_response"


class AnsweredRows(NamedTuple):
    """The answered rows of one run, for a request that needs several runs.

    Attributes:
        answer: a copy that outlives the slot's next run.
    """

    first_row: int
    answer: Answer
    times: RunTimes


class PendingRequest:
    """A checked request and its timestamps.

    The front end's thread creates and submits it. The batcher and the thread that runs its batch do the rest; they own the
    fields below, under the batcher's lock. A request is completed exactly once, with an answer or an error.

    Args:
        client: the client that it counts against when clients take turns.
        on_done: called once, at completion, on any thread, possibly with the batcher's lock held.
        sink: receives the answers of a decoupled model.
        on_run: for a decoupled model, called when the run that carried the request is over, possibly after on_done, since
            answers leave as the model gives them.
        on_response: called for each of those answers with its number, its outcome, and the times to compute and to frame it, in
            ns.
    """

    __slots__ = (
        "_claim",
        "_error",
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
        on_done: Callable[[PendingRequest], None] = lambda _: None,
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
        #: the priority level, and the place in the queue: smaller values run earlier
        self.level = 0
        self.rank: tuple[int, int, int, int] = (0, 0, 0, 0)
        self.size_bytes = 0
        #: rows whose run has not ended
        self.rows_left = request.rows
        #: the number of its shares in the queue
        self.waiting = 0
        #: the number of runs in progress that carry rows of this request
        self.in_flight = 0
        #: the number of instances that were lost while they had rows of this request
        self.timeouts = 0
        #: the requests of the first of these lost runs; this request runs alone from then on
        self.lost_run: LostRun | None = None
        #: the client disconnected or cancelled; runs in progress are not worth finishing
        self.cancelled = False
        #: a null request, which fills a slot of a sequence batch and is not answered
        self.null = False
        self.parts: list[AnsweredRows] = []
        #: the number of answers that a decoupled model has given so far
        self.responses = 0
        self.first_response_ns = 0
        #: when the last of them was sent, or when the run began, in monotonic ns
        self.last_response_ns = 0
        #: the first error among them
        self.error_response: ServerError | None = None
        self.answer: Any = None
        self._error: ServerError | None = None
        self.times: RunTimes | None = None
        #: the trace of a sampled request; its model's requests to other models belong to it
        self.trace: StepTrace | None = None
        #: keeps answers in the order of requests (preserve_ordering)
        self.completion_queue: CompletionQueue | None = None
        self._claim = threading.Lock()

    @property
    def error(self) -> ServerError | None:
        """The reason why it failed: an object of its own, which its thread may raise and modify."""
        return self._error

    @error.setter
    def error(self, error: ServerError | None) -> None:
        """Store a copy, since `error` may be shared by a whole batch."""
        self._error = None if error is None else error.copy()

    @property
    def completed(self) -> bool:
        """True once the request has its answer or its error; the client may not have been told yet."""
        return self._claim.locked()

    def prepare(self, answer: Answer, times: RunTimes) -> None:
        """Frame the answer. On return the outputs' buffers may be reused; release() must follow."""
        try:
            self.answer = self.frame(self.request, answer)
        except ServerError as error:
            self.error = error
        self.times = times._replace(answered_ns=time.monotonic_ns())

    def begin_run(self) -> None:
        """Record that a run with this request of a decoupled model begins."""
        self.last_response_ns = time.monotonic_ns()

    def respond(self, answer: Answer, *, final: bool = False) -> None:
        """Send one answer of a decoupled model. On return the outputs' buffers may be reused.

        Does nothing once the request is completed.

        Args:
            final: True for the last answer, after which end() follows.

        Raises:
            ServerError: If the answer cannot be framed.
        """
        if self._sink is None or self.completed:
            return
        came_ns = time.monotonic_ns()
        framed = self.frame(self.request, answer._replace(parameters={**answer.parameters, FINAL_RESPONSE: final}))
        self._responded(ResponseOutcome.SUCCESS, came_ns)
        self._sink.respond(framed)

    def respond_error(self, error: ServerError) -> None:
        """Send an error as one answer of a decoupled model. Others may follow, but the request counts as failed."""
        if self._sink is None or self.completed:
            return
        self.error_response = self.error_response or error.copy()
        self._responded(ResponseOutcome.FAIL, time.monotonic_ns())
        self._sink.respond_error(error)

    def _responded(self, outcome: ResponseOutcome, came_ns: int) -> None:
        """Count one more answer before its client receives it."""
        now_ns = time.monotonic_ns()
        self.responses += 1
        if self.responses == 1 and outcome in (ResponseOutcome.SUCCESS, ResponseOutcome.FAIL):
            self.first_response_ns = now_ns
        if self.on_response is not None:
            began_ns = self.last_response_ns or came_ns
            self.on_response(self.responses - 1, outcome, came_ns - began_ns, now_ns - came_ns)
        self.last_response_ns = now_ns

    def end(self, error: ServerError | None = None, *, announced: bool = False) -> None:
        """End a decoupled model's request: no more answers follow. Safe to call twice.

        Args:
            announced: True if the last answer was marked as final.
        """
        if not self.completed and not announced:
            outcome = ResponseOutcome.EMPTY if error is None else ResponseOutcome.FAIL
            self._responded(ResponseOutcome.CANCEL if self.cancelled else outcome, time.monotonic_ns())
        self.error = self.error or error
        self.release()

    def end_run(self, times: RunTimes) -> None:
        """Record the end of the run that carried a decoupled model's request; its last answer may be sent before or after."""
        self.times = times
        if self.on_run is not None:
            self.on_run(self)

    def release(self) -> None:
        """Complete the request and tell whoever waits for it. Does nothing the second time."""
        if not self._claim.acquire(blocking=False):
            return
        if self.completion_queue is not None:
            self.completion_queue.release_completed()
        else:
            self.on_done(self)

    def fail(self, error: ServerError) -> None:
        """Complete the request with an error."""
        self.error = error
        self.release()


class Share(NamedTuple):
    """Consecutive rows of one request: the unit that waits in the queue and that a run carries."""

    pending: PendingRequest
    first_row: int
    rows: int

    @property
    def whole(self) -> bool:
        """True if this share is the whole request, so that one run answers it."""
        return self.rows == self.pending.request.rows

    @property
    def tensors(self) -> tuple[memoryview | None, ...]:
        """The bytes of these rows, one view for each input, None for an optional input left out."""
        request = self.pending.request
        if self.whole:
            return request.tensors
        start, stop = self.first_row, self.first_row + self.rows
        return tuple(
            None if t is None else t[start * len(t) // request.rows : stop * len(t) // request.rows] for t in request.tensors
        )


class LostRun:
    """The requests of one lost run. losses: instances lost since, when they ran alone. The batcher's lock protects it."""

    def __init__(self, members: Sequence[PendingRequest]) -> None:
        self.members = members
        self.losses = 0


class CompletionQueue:
    """Releases completed requests in their order of arrival (preserve_ordering). Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[PendingRequest] = deque()

    def add(self, pending: PendingRequest) -> None:
        """Append a request that has just been queued."""
        pending.completion_queue = self
        with self._lock:
            self._waiting.append(pending)

    def release_completed(self) -> None:
        """Release the completed requests at the head of the queue. Called when one more request is completed."""
        with self._lock:
            while self._waiting and self._waiting[0].completed:
                done = self._waiting.popleft()
                done.on_done(done)
