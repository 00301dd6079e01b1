# SPDX-License-Identifier: Apache-2.0
"""SequenceBatcher: the queue of a model with sequence_batching.

Requests with one correlation ID form a sequence, from its START to its END. A sequence has a slot at one instance for its whole
life, because models keep state there, and its requests run one after another. Sequences that find no free slot wait for one.
Requests have no timeout, because leaving one out would break the sequence.

::

    direct: a slot is a place in the batch. Each run takes the next request of every slot that has one. Slots between those
            get a null request (READY is false, inputs are zero), so that a model may keep state by slot.
    oldest: an instance has max_candidate_sequences slots; a run takes one request each from some of them, oldest first.

Texts and values are those of Triton's sequence batcher. When an instance is lost, so is the state of its sequences: their
requests fail, and the clients must start them again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.backend import Waiting
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.scheduling.batch import NO_BATCH, Batcher, NextBatch
from hypersonic.server.core.scheduling.open_sequence import Backlog, OpenSequence
from hypersonic.server.core.scheduling.sequence_tensors import SequenceTensors
from hypersonic.server.errors import InvalidTensorError, ModelConfigError, ServerError, UnavailableError
from hypersonic.server.limits.bounds import SEQUENCES


class SequenceBatcher(Batcher):
    """A Batcher for sequences.

    Args:
        capacity_rows: the rows of a run.
        instances: their number; each has slots of its own.
    """

    pinned = True

    def __init__(self, config: ModelConfig, capacity_rows: int, instances: int) -> None:
        """Create a SequenceBatcher. Raises ModelConfigError for more sequences than memory is kept for."""
        super().__init__()
        assert config.sequence is not None
        self._name = config.name
        self._batched = config.max_batch_size > 0
        self._rule = config.sequence
        self._direct = config.sequence.strategy == "direct"
        self._capacity = capacity_rows if self._batched else 1
        self._tensors = SequenceTensors(config)
        slots = max(1, self._capacity if self._direct else config.sequence.max_candidate_sequences or self._capacity)
        if slots * instances not in SEQUENCES:
            raise ModelConfigError(
                f"{instances} instances with {slots} sequences each have room for {slots * instances} sequences, expected "
                f"{SEQUENCES} for {config.name}: lower max_candidate_sequences, max_batch_size or the instances' count"
            )
        self._slots: list[list[OpenSequence | None]] = [[None] * slots for _ in range(instances)]
        self._sequences: dict[int | str, OpenSequence] = {}
        self._backlog = Backlog()
        #: those of which no request waits or is in a run, in the order in which they became so
        self._idle: dict[OpenSequence, None] = {}
        #: slots by client
        self._held: Counter[str] = Counter()
        self._by_request: dict[PendingRequest, OpenSequence] = {}
        #: how many of these requests are in a run
        self._in_flight = 0
        self._running: set[int] = set()

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._by_request) - self._in_flight

    def waiting(self) -> Waiting:
        """As Batcher.waiting."""
        with self.lock:
            waiting = [pending for sequence in self._sequences.values() for pending in sequence.waiting]
            since_ns = min((pending.queued.enqueued_ns for pending in waiting), default=0)
            return Waiting(since_ns, sum(pending.request.rows for pending in waiting))

    def enqueue(self, pending: PendingRequest) -> None:
        """Queue a request of a sequence.

        Raises InvalidTensorError, with Triton's text, for a request out of sequence, or the error that the batcher was closed
        or suspended with.
        """
        with self.lock:
            if refusal := self._closed or self._suspended:
                raise refusal.copy()
            now_ns = time.monotonic_ns()
            self._forget_idle(now_ns)
            sequence = self._find_sequence(pending, now_ns)
            pending.queued.enqueued_ns = sequence.last_ns = now_ns
            pending.queued.size_bytes = pending.request.size_bytes
            pending.queued.waiting = 1
            sequence.waiting.append(pending)
            self._idle.pop(sequence, None)
            self._by_request[pending] = sequence

    def _find_sequence(self, pending: PendingRequest, now_ns: int) -> OpenSequence:
        """Return the request's sequence; a new one if the request starts it."""
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
        sequence = self._sequences.get(mark.id)
        if not mark.start and (sequence is None or sequence.ended):
            raise InvalidTensorError(
                f"inference request for sequence {mark.id} to model '{self._name}' must specify the START flag on the "
                "first request of the sequence"
            )
        if sequence is None:
            sequence = self._sequences[mark.id] = OpenSequence(mark.id, pending.client, now_ns)
            self._backlog.add(sequence)
            self._assign_backlog()
        sequence.ended = mark.end
        return sequence

    def _assign_backlog(self) -> None:
        """Give free slots to waiting sequences, at the instance with the most free slots: first to the clients with the fewest
        slots, and then to the sequence that has waited longest."""
        while self._backlog:
            instance = max(range(len(self._slots)), key=lambda i: self._slots[i].count(None))
            if None not in self._slots[instance]:
                return
            sequence = self._backlog.take(self._held)
            self._held[sequence.client] += 1
            sequence.instance, sequence.slot = instance, self._slots[instance].index(None)
            self._slots[instance][sequence.slot] = sequence

    def _forget_idle(self, now_ns: int) -> int:
        """End sequences whose clients have been silent for too long; return the ns until the next may end, 0 = none."""
        limit_ns = 1000 * self._rule.max_idle_us
        while self._idle:
            sequence = next(iter(self._idle))
            if (left_ns := sequence.last_ns + limit_ns - now_ns) > 0:
                return left_ns
            self._close_sequence(sequence)
        return 0

    def _note_idle(self, sequence: OpenSequence) -> None:
        """Record that a sequence's request has ended: end the sequence after its last one."""
        sequence.last_ns = time.monotonic_ns()
        if not sequence.idle:
            return
        if sequence.ended:
            self._close_sequence(sequence)
        elif self._sequences.get(sequence.id) is sequence:
            self._idle[sequence] = None

    def _close_sequence(self, sequence: OpenSequence) -> None:
        """End the sequence and free its slot."""
        if self._sequences.get(sequence.id) is sequence:
            del self._sequences[sequence.id]
        if sequence.slot >= 0:
            self._slots[sequence.instance][sequence.slot] = None
            self._held -= Counter({sequence.client: 1})
            sequence.slot = -1
        self._backlog.discard(sequence)
        self._idle.pop(sequence, None)
        self._assign_backlog()

    def take(self, last: PendingRequest | None = None, instance: int = 0) -> NextBatch:
        """Return the next batch of one instance, if one is due.

        Args:
            last: only a batch that contains this request.
        """
        with self.lock:
            now_ns = time.monotonic_ns()
            idle_ns = self._forget_idle(now_ns) if self._backlog else 0
            if instance in self._running or instance >= len(self._slots):
                return NO_BATCH
            ready = self._ready(instance)
            if not ready:
                return NextBatch((), idle_ns)
            left_ns = self._left_ns(instance, ready, now_ns)
            if left_ns > 0 and self._closed is None:
                return NextBatch((), min(left_ns, idle_ns or left_ns))
            if last is not None and all(sequence.waiting[0] is not last for sequence in ready):
                return NO_BATCH
            return NextBatch(tuple(self._dispatch(instance, ready)), 0)

    def _ready(self, instance: int) -> list[OpenSequence]:
        """Return the sequences whose next requests may share a run: in order of slot, or the oldest ones."""
        waiting = [
            sequence
            for sequence in self._slots[instance]
            if sequence is not None and sequence.waiting and sequence.in_flight is None
        ]
        waiting.sort(key=lambda sequence: sequence.waiting[0].queued.enqueued_ns)
        together = [
            sequence for sequence in waiting if sequence.waiting[0].request.group == waiting[0].waiting[0].request.group
        ]
        if self._direct:
            return sorted(together, key=lambda sequence: sequence.slot)
        return together[: self._capacity]

    def _left_ns(self, instance: int, ready: Sequence[OpenSequence], now_ns: int) -> int:
        """Return how long the batch may still wait for more requests, in ns."""
        rule = self._rule
        left_ns = min(sequence.waiting[0].queued.enqueued_ns for sequence in ready) + 1000 * rule.max_queue_delay_us - now_ns
        assigned = len(self._slots[instance]) - self._slots[instance].count(None)
        if self._direct:
            return left_ns if len(ready) < rule.minimum_slot_utilization * assigned else 0
        if len(ready) in (assigned, self._capacity) or len(ready) in rule.preferred_batch_sizes:
            return 0
        return left_ns

    def _dispatch(self, instance: int, ready: Sequence[OpenSequence]) -> Iterable[Share]:
        """Return the shares of a run of these sequences, with null requests for the empty slots between them."""
        self._running.add(instance)
        slot = 0
        for sequence in ready:
            if self._direct and self._batched:
                for _ in range(sequence.slot - slot):
                    yield Share(self._tensors.null(sequence.waiting[0]), 0, 1)
                slot = sequence.slot + 1
            pending = sequence.waiting.popleft()
            mark = pending.request.sequence
            if mark is not None and mark.start:
                sequence.state = ()
            pending.request = self._tensors.attach(pending.request, sequence.state)
            pending.queued.waiting = 0
            pending.queued.in_flight = 1
            sequence.in_flight = pending
            self._in_flight += 1
            yield Share(pending, 0, pending.request.rows)

    def keep_state(self, share: Share, answer: Answer) -> None:
        """Keep the state outputs in the answer to this share: they are inputs of the sequence's next request."""
        sequence = self._by_request.get(share.pending)
        if sequence is not None and self._tensors.stateful:
            sequence.state = self._tensors.state_of(answer)

    def end_run(self, share: Share) -> bool:
        """As Batcher.end_run."""
        with self.lock:
            sequence = self._end_run(share.pending)
            if sequence is None:
                return False
            share.pending.queued.rows_left = 0
            if share.pending.error is not None:
                share.pending.fail(share.pending.error)
                return False
            return True

    def _end_run(self, pending: PendingRequest) -> OpenSequence | None:
        """Record the end of the request's run; return its sequence, None for a null request."""
        sequence = self._by_request.pop(pending, None)
        pending.queued.in_flight = 0
        if sequence is None:
            return None
        self._running.discard(sequence.instance)
        self._in_flight -= 1
        sequence.in_flight = None
        self._note_idle(sequence)
        self.changed.notify_all()
        return sequence

    def fail(self, shares: Sequence[Share], error: ServerError) -> None:
        """Fail the requests of these shares; their sequences continue."""
        with self.lock:
            for share in shares:
                if self._end_run(share.pending) is not None:
                    share.pending.fail(error)

    def put_back(self, shares: Sequence[Share], error: ServerError, proven: ServerError | None = None) -> None:  # noqa: ARG002
        """End all sequences that had a slot at the lost instance: their state is lost, so their requests fail (UNAVAILABLE).

        Args:
            error, proven: `error` is part of the text; `proven` is not used, since requests of a sequence never run a second
                time.
        """
        with self.lock:
            instances = {sequence.instance for share in shares if (sequence := self._by_request.get(share.pending)) is not None}
            lost = {sequence for sequence in self._by_request.values() if sequence.instance in instances}
            for sequence in lost.union(self._sequences.values()):
                if sequence.instance in instances:
                    text = f"{error}; the state of sequence {sequence.id} is lost: start it again"
                    self._end(sequence, UnavailableError(text), lost=True)
            self._running -= instances
            self.changed.notify_all()

    def _end(self, sequence: OpenSequence, error: ServerError, *, lost: bool = False) -> None:
        """End a sequence; its waiting requests fail.

        Args:
            lost: its request in flight fails too. Otherwise that one is answered.
        """
        if lost and sequence.in_flight is not None:
            sequence.waiting.appendleft(sequence.in_flight)
            sequence.in_flight = None
            self._in_flight -= 1
        self._fail_waiting(sequence, 0, error)
        self._close_sequence(sequence)

    def _fail_waiting(self, sequence: OpenSequence, first: int, error: ServerError) -> None:
        """Fail the waiting requests of a sequence from number `first` on."""
        while len(sequence.waiting) > first:
            pending = sequence.waiting[first]
            del sequence.waiting[first]
            self._by_request.pop(pending, None)
            pending.queued.in_flight = pending.queued.waiting = 0
            pending.fail(error)

    def withdraw(self, pending: PendingRequest, error: ServerError) -> None:
        """Remove a waiting request; if it is a START, those after it fail too, and the sequence ends with those before it."""
        with self.lock:
            pending.cancelled = True
            sequence = self._by_request.get(pending)
            if sequence is None or sequence.in_flight is pending:
                return
            place = sequence.waiting.index(pending)
            mark = pending.request.sequence
            if mark is not None and mark.start:
                self._fail_waiting(sequence, place, error)
                sequence.ended = True
            else:
                del sequence.waiting[place]
                del self._by_request[pending]
                pending.fail(error)
            self._note_idle(sequence)
            self.changed.notify()

    def close(self, error: ServerError) -> None:
        """Refuse new requests; waiting requests can still be taken, except those of sequences without a slot, which fail."""
        with self.lock:
            for sequence in list(self._backlog):
                self._end(sequence, error)
            super().close(error)

    def _fail_all(self, error: ServerError) -> None:
        for sequence in list(self._sequences.values()):
            self._end(sequence, error)
