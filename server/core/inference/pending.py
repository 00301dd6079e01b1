# SPDX-License-Identifier: Apache-2.0
"""A request between its arrival and its answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.request import CheckedRequest, Frame
from hypersonic.server.core.inference.responses import Responses
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


@dataclass(slots=True)
class Queued:
    """The state of a request in the queue and in runs. The batcher's lock protects it.

    Attributes:
        rows_left: rows whose run has not ended.
        enqueued_ns: when it was queued, in monotonic ns.
        expires_ns: when its timeout ends; 0 for none.
        level: its priority level.
        rank: its place in the queue: smaller values run earlier.
        arrived: the queue's virtual time when it came, -1 once it has been in a run.
        size_bytes: the size of its tensors.
        waiting: the number of its shares in the queue.
        in_flight: the number of runs in progress that carry rows of it.
        timeouts: the number of instances that were lost while they had rows of it.
        lost_run: the requests of the first of these lost runs; this request runs alone from then on.
    """

    rows_left: int
    enqueued_ns: int = 0
    expires_ns: int = 0
    level: int = 0
    rank: tuple[int, int, int, int] = (0, 0, 0, 0)
    arrived: int = -1
    size_bytes: int = 0
    waiting: int = 0
    in_flight: int = 0
    timeouts: int = 0
    lost_run: LostRun | None = None


class PendingRequest:
    """A checked request between its arrival and its answer.

    The front end's thread creates and submits it. The batcher and the thread that runs its batch do the rest. A request is
    completed exactly once, with an answer or an error.

    Attributes:
        queued: its state in the queue.
        null: True for a null request, which fills a slot of a sequence batch and is not answered.
        cancelled: True if the client disconnected or cancelled; runs in progress are not worth finishing.
        parts: the rows that are answered so far, of a request that needs several runs.
        times: the timestamps of its run.
        trace: the trace of a sampled request; its model's requests to other models belong to it.
        completion_queue: keeps answers in the order of requests (preserve_ordering).

    Args:
        client: the client that it counts against when clients take turns.
        on_done: called once, at completion, on any thread, possibly with the batcher's lock held.
        responses: the answers, if the model is decoupled.
    """

    __slots__ = (
        "_claim", "_error", "answer", "arrived_ns", "cancelled", "client", "completion_queue", "frame", "null", "on_done",
        "parts", "queued", "request", "responses", "times", "trace",
    )  # fmt: skip

    def __init__(
        self,
        request: CheckedRequest,
        frame: Frame,
        arrived_ns: int,
        *,
        client: str = "",
        on_done: Callable[[PendingRequest], None] = lambda _: None,
        responses: Responses | None = None,
    ) -> None:
        self.request = request
        self.frame = frame
        self.arrived_ns = arrived_ns
        self.client = client
        self.on_done = on_done
        self.responses = responses
        self.queued = Queued(request.rows)
        self.null = False
        self.cancelled = False
        self.parts: list[AnsweredRows] = []
        self.answer: Any = None
        self._error: ServerError | None = None
        self.times: RunTimes | None = None
        self.trace: StepTrace | None = None
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
    def failure(self) -> ServerError | None:
        """The reason why it failed, or the first error among a decoupled model's answers."""
        return self._error or (self.responses.error if self.responses else None)

    @property
    def answered(self) -> bool:
        """True once a decoupled model has given an answer."""
        return self.responses is not None and self.responses.count > 0

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
        self.times = times.answered_at(time.monotonic_ns())

    def respond(self, answer: Answer, *, final: bool = False) -> None:
        """Send one answer of a decoupled model. On return the outputs' buffers may be reused.

        Does nothing once the request is completed.

        Args:
            final: True for the last answer, after which end() follows.

        Raises:
            ServerError: If the answer cannot be framed.
        """
        if self.responses is None or self.completed:
            return
        came_ns = time.monotonic_ns()
        framed = self.frame(self.request, answer._replace(parameters={**answer.parameters, FINAL_RESPONSE: final}))
        self.responses.add(ResponseOutcome.SUCCESS, came_ns)
        self.responses.sink.respond(framed)

    def respond_error(self, error: ServerError) -> None:
        """Send an error as one answer of a decoupled model. Others may follow, but the request counts as failed."""
        if self.responses is None or self.completed:
            return
        self.responses.error = self.responses.error or error.copy()
        self.responses.add(ResponseOutcome.FAIL, time.monotonic_ns())
        self.responses.sink.respond_error(error)

    def end(self, error: ServerError | None = None, *, announced: bool = False) -> None:
        """End a decoupled model's request: no more answers follow. Safe to call twice.

        Args:
            announced: True if the last answer was marked as final.
        """
        if self.responses is not None and not self.completed and not announced:
            outcome = ResponseOutcome.EMPTY if error is None else ResponseOutcome.FAIL
            self.responses.add(ResponseOutcome.CANCEL if self.cancelled else outcome, time.monotonic_ns())
        self.error = self.error or error
        self.release()

    def end_run(self, times: RunTimes) -> None:
        """Record the end of the run that carried a decoupled model's request; its last answer may be sent before or after."""
        self.times = times
        if self.responses is not None:
            self.responses.on_run_end()

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
    """The requests of one lost run. The batcher's lock protects it.

    Attributes:
        losses: instances lost since, when they ran alone.
    """

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
