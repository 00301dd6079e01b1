# SPDX-License-Identifier: Apache-2.0
"""DynamicBatcher: the queue of one model version. The batching rule (rule.py) decides which part of it is the next run.

FairQueue determines the order: priority levels, then clients in turn. A request whose run was lost with its instance runs again
alone, at once (lost_run.py). A batch is taken when a slot is free, so batches grow by themselves while the cards are busy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hypersonic.server.core.inference.backend import Waiting
from hypersonic.server.core.inference.pending import CompletionQueue, PendingRequest, Share
from hypersonic.server.core.scheduling.batch import NO_BATCH, Batcher, NextBatch
from hypersonic.server.core.scheduling.fair_queue import FairQueue
from hypersonic.server.core.scheduling.lost_run import mark_lost
from hypersonic.server.core.scheduling.rule import BatchRule, Take, Wait, choose_batch
from hypersonic.server.errors import CancelledError, QueueFullError, QueueTimeoutError, ServerError, UnavailableError

#: a request that was in this many lost runs does not run again
MAX_TIMEOUTS = 2


class DynamicBatcher(Batcher):
    """A Batcher whose batches may run on any instance.

    Front ends' threads enqueue and withdraw; the threads that run batches take them, end runs and put shares back.
    """

    def __init__(self, rule: BatchRule) -> None:
        super().__init__()
        self.rule = rule
        self._queue = FairQueue(fair=not rule.keep_order)
        self._completion_queue = CompletionQueue() if rule.keep_order else None

    def __len__(self) -> int:
        """Return the number of waiting shares, one of which may be the rest of a request that is partly taken."""
        return len(self._queue)

    def waiting(self) -> Waiting:
        """As Batcher.waiting."""
        with self.lock:
            since_ns = min((share.pending.queued.enqueued_ns for share in self._queue), default=0)
            return Waiting(since_ns, sum(share.rows for share in self._queue))

    def enqueue(self, pending: PendingRequest) -> None:
        """Queue a request. Raises QueueFullError (UNAVAILABLE), or the error that the batcher was closed or suspended with."""
        now = time.monotonic_ns()
        rule = self.rule
        with self.lock:
            if refusal := self._closed or self._suspended:
                raise refusal.copy()
            request = pending.request
            level = rule.level_of(request.priority) if rule.levels else 0
            policy = rule.policy_of(level)
            if policy.max_queue_size and self._waiting(level) >= policy.max_queue_size:
                raise QueueFullError
            timeout_us = policy.timeout_of(request.timeout_us)
            pending.queued.level = level
            pending.queued.enqueued_ns = now
            pending.queued.expires_ns = now + 1000 * timeout_us if timeout_us else 0
            pending.queued.size_bytes = request.size_bytes
            self._queue.add(pending)
            if self._completion_queue is not None:
                self._completion_queue.add(pending)

    def _waiting(self, level: int) -> int:
        if not self.rule.levels:
            return len(self._queue)
        return sum(share.pending.queued.level == level for share in self._queue)

    def withdraw(self, pending: PendingRequest, error: ServerError) -> None:
        """Remove a request's waiting rows from the queue; it fails with `error` unless all its rows are in runs."""
        with self.lock:
            pending.cancelled = True
            if self._queue.remove(pending):
                self._fail(pending, error)
                self.changed.notify()

    def expire(self) -> int:
        """Refuse or delay the requests whose timeout has expired; return the ns until the next one does, 0 = none."""
        now_ns = time.monotonic_ns()
        with self.lock:
            for pending in self._queue.expired(now_ns):
                if self.rule.policy_of(pending.queued.level).delay_on_timeout:
                    pending.queued.expires_ns = 0
                    self._queue.delay(pending)
                else:
                    self._queue.remove(pending)
                    self._fail(pending, QueueTimeoutError())
            return max(1, self._queue.expires_ns - now_ns) if self._queue.expires_ns else 0

    def take(self, last: PendingRequest | None = None, instance: int = 0) -> NextBatch:  # noqa: ARG002
        """Return the next batch, if one is due.

        Args:
            last: if given, return only a batch that contains all of this request's rows and ends with it.
            instance: not used, since any may run the batch.
        """
        with self.lock:
            if self._queue.expires_ns:
                self.expire()
            if not self._queue:
                return NO_BATCH
            now_ns = time.monotonic_ns()
            expires_ns, closing = self._queue.expires_ns, self._closed is not None
            choice = choose_batch(self.rule, self._queue.waiting(), now_ns, expires_ns=expires_ns, closing=closing)
            if isinstance(choice, Wait):
                return NextBatch((), max(1, choice.until_ns - now_ns)) if choice.until_ns else NO_BATCH
            shares = self._take(choice, last)
            for share in shares:
                share.pending.queued.in_flight += 1
            return NextBatch(shares, 0)

    def _take(self, choice: Take, last: PendingRequest | None) -> tuple[Share, ...]:
        """Remove the chosen shares from the queue and return them; none unless they end with all of `last`'s rows."""
        share = self._queue[choice.requests - 1]
        cut = choice.rows < share.rows and choice.requests == 1
        if last is not None and (cut or share.pending is not last):
            return ()
        return (self._queue.cut(choice.rows),) if cut else self._queue.take(choice.requests)

    def end_run(self, share: Share) -> bool:
        """Record the end of a run with this share; return whether the request is to be completed now."""
        pending = share.pending
        with self.lock:
            pending.queued.in_flight -= 1
            pending.queued.rows_left -= share.rows
            if pending.error is not None:
                self._fail(pending, pending.error)
                return False
            return pending.queued.rows_left == 0

    def fail(self, shares: Sequence[Share], error: ServerError) -> None:
        """Fail the requests of these shares, whose run failed and is not repeated."""
        with self.lock:
            for share in shares:
                share.pending.queued.in_flight -= 1
                self._queue.remove(share.pending)
                self._fail(share.pending, error)

    def put_back(self, shares: Sequence[Share], error: ServerError, proven: ServerError | None = None) -> None:
        """Return the shares of a lost instance to their places in the queue, each to run again alone.

        A request that has run again and was lost again fails: with `proven` if the caller has proof that a request of this run
        took down the instance, otherwise with `error`. Requests that were already answered in part, and those given up
        together, fail with `error`.
        """
        hopeless: list[Share] = []
        with self.lock:
            lost = list(dict.fromkeys(share.pending for share in shares))
            for pending in lost:
                pending.queued.timeouts += 1
            for share in shares:
                pending = share.pending
                if pending.completed:
                    continue
                if (
                    pending.queued.timeouts >= MAX_TIMEOUTS
                    or pending.error is not None
                    or pending.answered
                    or pending.cancelled
                ):
                    hopeless.append(share)
                    continue
                pending.queued.in_flight -= 1
                self._queue.insert(share)
            for share in hopeless:
                pending = share.pending
                refusal = proven if proven is not None and pending.queued.timeouts >= MAX_TIMEOUTS else error
                self.fail([share], CancelledError() if pending.cancelled else refusal)
            self._give_up(mark_lost(lost), error)
            self.changed.notify_all()

    def _give_up(self, given_up: Sequence[PendingRequest], error: ServerError) -> None:
        """Fail these requests, since others of their run have taken down too many instances. The lock is held."""
        text = f"{error}; not tried again: other requests of its batch have ended the process or card one by one"
        for pending in given_up:
            if self._queue.remove(pending):
                self._fail(pending, UnavailableError(text))

    def _fail_all(self, error: ServerError) -> None:
        for pending in self._queue.clear():
            self._fail(pending, error)

    def _fail(self, pending: PendingRequest, error: ServerError) -> None:
        """Record the first error; complete the request once none of its rows is in a run. The lock is held."""
        if pending.completed:
            return
        pending.error = pending.error or error
        if pending.queued.in_flight == 0:
            pending.fail(pending.error)
