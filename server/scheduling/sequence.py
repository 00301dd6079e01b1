# SPDX-License-Identifier: Apache-2.0
"""SequenceBatcher: the queue of a model with sequence_batching.

Requests with one correlation ID form a sequence, from its START to its END. A sequence has a seat at one instance for life,
because models keep state there; its requests run one after another. Sequences that find no seat wait for one.

    direct: a seat is a place in the batch. Each run takes the next request of every seat that has one; seats in between that
            have none get a null request (READY is false, inputs are zero), so that a model may keep state by place.
    oldest: an instance has max_candidate_sequences seats; a run takes one request each of some of them, oldest first.

Texts and values are Triton's sequence batcher's. When an instance is lost, so is the state of its sequences: their requests
fail, and the clients start them again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence

from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.errors import InvalidTensorError, ServerError, UnavailableError
from hypersonic.server.inference.answer import Answer
from hypersonic.server.inference.pending import PendingRequest, Share
from hypersonic.server.scheduling.batch import NOTHING, Due
from hypersonic.server.scheduling.sequence_tensors import SequenceTensors


class Line:
    """One sequence: what waits, and where it sits. seat: in the batch, -1 = it has none yet."""

    __slots__ = ("ended", "id", "in_flight", "instance", "last_ns", "seat", "state", "waiting")

    def __init__(self, sequence_id: int | str, now_ns: int) -> None:
        self.id = sequence_id
        self.waiting: deque[PendingRequest] = deque()
        self.instance = self.seat = -1
        self.in_flight: PendingRequest | None = None
        #: END has been queued
        self.ended = False
        self.last_ns = now_ns
        self.state: tuple[bytes, ...] = ()

    @property
    def idle(self) -> bool:
        return not self.waiting and self.in_flight is None


class SequenceBatcher:
    """The interface of DynamicBatcher. capacity_rows: of a run. instances: each has seats of its own."""

    pinned = True

    def __init__(self, config: ModelConfig, capacity_rows: int, instances: int) -> None:
        assert config.sequence is not None
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._name = config.name
        self._batched = config.max_batch_size > 0
        self._rule = config.sequence
        self._direct = config.sequence.strategy == "direct"
        self._capacity = capacity_rows if self._batched else 1
        self._tensors = SequenceTensors(config)
        places = max(1, self._capacity if self._direct else config.sequence.max_candidate_sequences or self._capacity)
        self._seats: list[list[Line | None]] = [[None] * places for _ in range(instances)]
        self._lines: dict[int | str, Line] = {}
        self._standing: deque[Line] = deque()
        self._of: dict[PendingRequest, Line] = {}
        self._flying: set[int] = set()
        self._closed: ServerError | None = None
        self._suspended: ServerError | None = None

    def __len__(self) -> int:
        return sum(line.in_flight is not pending for pending, line in self._of.items())

    @property
    def closed(self) -> bool:
        return self._closed is not None

    def enqueue(self, pending: PendingRequest) -> None:
        """Raises InvalidTensorError with Triton's text for a request out of sequence, or the error it was closed with."""
        with self.lock:
            if refusal := self._closed or self._suspended:
                raise refusal.copy()
            now_ns = time.monotonic_ns()
            self._forget_idle(now_ns)
            line = self._line(pending, now_ns)
            pending.enqueued_ns = line.last_ns = now_ns
            pending.size_bytes = pending.request.size_bytes
            pending.waiting = 1
            line.waiting.append(pending)
            self._of[pending] = line

    def _line(self, pending: PendingRequest, now_ns: int) -> Line:
        """The request's sequence; a new one where it starts."""
        request = pending.request
        mark = request.sequence
        if mark is None or not mark.id:
            raise InvalidTensorError(
                f"inference request to model '{self._name}' must specify a non-zero or non-empty correlation ID"
            )
        if self._batched and request.rows > 1:
            raise InvalidTensorError(
                f"inference request to model '{self._name}' must specify batch-size 1 due to requirements of sequence batcher"
            )
        self._tensors.check(mark.id)
        line = self._lines.get(mark.id)
        if not mark.start and (line is None or line.ended):
            raise InvalidTensorError(
                f"inference request for sequence {mark.id} to model '{self._name}' must specify the START flag on the "
                "first request of the sequence"
            )
        if line is None:
            line = self._lines[mark.id] = Line(mark.id, now_ns)
            self._standing.append(line)
            self._seat_standing()
        line.ended = mark.end
        return line

    def _seat_standing(self) -> None:
        """Give free seats to the sequences that wait longest, at the instance with the most of them."""
        while self._standing:
            instance = max(range(len(self._seats)), key=lambda i: self._seats[i].count(None))
            if None not in self._seats[instance]:
                return
            line = self._standing.popleft()
            line.instance, line.seat = instance, self._seats[instance].index(None)
            self._seats[instance][line.seat] = line

    def _forget_idle(self, now_ns: int) -> int:
        """End sequences whose clients are silent for too long; ns until the next one may be, 0 = none."""
        limit_ns = 1000 * self._rule.max_idle_us
        idle = [line for line in self._lines.values() if line.idle]
        for line in idle:
            if now_ns - line.last_ns >= limit_ns:
                self._dismiss(line)
        left = [line.last_ns + limit_ns - now_ns for line in idle if now_ns - line.last_ns < limit_ns]
        return max(1, min(left)) if left else 0

    def _dismiss(self, line: Line) -> None:
        """The sequence is over: its seat is free."""
        if self._lines.get(line.id) is line:
            del self._lines[line.id]
        if line.seat >= 0:
            self._seats[line.instance][line.seat] = None
            line.seat = -1
        elif line in self._standing:
            self._standing.remove(line)
        self._seat_standing()

    def take(self, last: PendingRequest | None = None, instance: int = 0) -> Due:
        """The next batch of one instance. last: only one that this request is in."""
        with self.lock:
            now_ns = time.monotonic_ns()
            idle_ns = self._forget_idle(now_ns) if self._standing else 0
            if instance in self._flying or instance >= len(self._seats):
                return NOTHING
            ready = self._ready(instance)
            if not ready:
                return Due((), idle_ns)
            left_ns = self._left_ns(instance, ready, now_ns)
            if left_ns > 0 and self._closed is None:
                return Due((), min(left_ns, idle_ns or left_ns))
            if last is not None and all(line.waiting[0] is not last for line in ready):
                return NOTHING
            return Due(tuple(self._board(instance, ready)), 0)

    def _ready(self, instance: int) -> list[Line]:
        """Sequences whose next requests may share a run: by seat, or the oldest ones."""
        found = [line for line in self._seats[instance] if line is not None and line.waiting and line.in_flight is None]
        found.sort(key=lambda line: line.waiting[0].enqueued_ns)
        alike = [line for line in found if line.waiting[0].request.group == found[0].waiting[0].request.group]
        if self._direct:
            return sorted(alike, key=lambda line: line.seat)
        return alike[: self._capacity]

    def _left_ns(self, instance: int, ready: Sequence[Line], now_ns: int) -> int:
        """How long the batch may still wait for more requests."""
        rule = self._rule
        left_ns = min(line.waiting[0].enqueued_ns for line in ready) + 1000 * rule.max_queue_delay_us - now_ns
        seated = len(self._seats[instance]) - self._seats[instance].count(None)
        if self._direct:
            return left_ns if len(ready) < rule.minimum_slot_utilization * seated else 0
        if len(ready) in (seated, self._capacity) or len(ready) in rule.preferred_batch_sizes:
            return 0
        return left_ns

    def _board(self, instance: int, ready: Sequence[Line]) -> Iterable[Share]:
        self._flying.add(instance)
        seat = 0
        for line in ready:
            if self._direct and self._batched:
                for _ in range(line.seat - seat):
                    yield Share(self._tensors.null(line.waiting[0]), 0, 1)
                seat = line.seat + 1
            pending = line.waiting.popleft()
            mark = pending.request.sequence
            if mark is not None and mark.start:
                line.state = ()
            pending.request = self._tensors.attach(pending.request, line.state)
            pending.waiting = 0
            pending.in_flight = 1
            line.in_flight = pending
            yield Share(pending, 0, pending.request.rows)

    def keep(self, share: Share, answer: Answer) -> None:
        """The run's answer to this share: its state outputs are the next request's inputs."""
        line = self._of.get(share.pending)
        if line is not None and self._tensors.stateful:
            line.state = self._tensors.state_of(answer)

    def land(self, share: Share) -> bool:
        """As DynamicBatcher.land."""
        with self.lock:
            line = self._landed(share.pending)
            if line is None:
                return False
            share.pending.rows_left = 0
            if share.pending.error is not None:
                share.pending.fail(share.pending.error)
                return False
            return True

    def _landed(self, pending: PendingRequest) -> Line | None:
        """The request's run is over; its sequence, None for a null request."""
        line = self._of.pop(pending, None)
        pending.in_flight = 0
        if line is None:
            return None
        self._flying.discard(line.instance)
        line.in_flight = None
        line.last_ns = time.monotonic_ns()
        mark = pending.request.sequence
        if mark is not None and mark.end and not line.waiting:
            self._dismiss(line)
        self.changed.notify_all()
        return line

    def fail(self, shares: Sequence[Share], error: ServerError) -> None:
        """A run with these shares failed for good; their sequences go on."""
        with self.lock:
            for share in shares:
                if self._landed(share.pending) is not None:
                    share.pending.fail(error)

    def put_back(self, shares: Sequence[Share], error: ServerError) -> None:
        """The instance is lost, and with it the state of every sequence that sat there: all of them end."""
        with self.lock:
            instances = {line.instance for share in shares if (line := self._of.get(share.pending)) is not None}
            for line in [line for line in self._lines.values() if line.instance in instances]:
                self._end(line, UnavailableError(f"{error}; the state of sequence {line.id} is lost: start it again"))
            self._flying -= instances
            self.changed.notify_all()

    def _end(self, line: Line, error: ServerError) -> None:
        requests = [*([line.in_flight] if line.in_flight else []), *line.waiting]
        line.waiting.clear()
        line.in_flight = None
        self._dismiss(line)
        for pending in requests:
            self._of.pop(pending, None)
            pending.in_flight = pending.waiting = 0
            pending.fail(error)

    def withdraw(self, pending: PendingRequest, error: ServerError) -> None:
        """Take a waiting request out; a sequence that lost its START so ends."""
        with self.lock:
            pending.cancelled = True
            line = self._of.get(pending)
            if line is None or line.in_flight is pending:
                return
            mark = pending.request.sequence
            if mark is not None and mark.start:
                self._end(line, error)
            else:
                line.waiting.remove(pending)
                del self._of[pending]
                pending.fail(error)
            self.changed.notify()

    def expire(self) -> int:
        """Requests of a sequence have no timeout: one that was left out would break it."""
        return 0

    def close(self, error: ServerError) -> None:
        """No new requests; what waits is still taken, but for sequences that will not get a seat."""
        with self.lock:
            self._closed = error
            for line in list(self._standing):
                self._end(line, error)
            self.changed.notify_all()

    def abandon(self, error: ServerError) -> None:
        with self.lock:
            self._closed = error
            self.suspend(error)
            self.changed.notify_all()

    def suspend(self, error: ServerError) -> None:
        with self.lock:
            self._suspended = error
            for line in list(self._lines.values()):
                self._end(line, error)

    def resume(self) -> None:
        with self.lock:
            self._suspended = None
