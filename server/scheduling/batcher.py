# SPDX-License-Identifier: Apache-2.0
"""DynamicBatcher: the queue of one model version; the batching rule (rule.py) says which of it is the next run.

What runs first is FairQueue's matter: priority levels, then clients in turn. A request whose run was lost with its instance
runs again alone, at once (lost_run.py). Batches are taken when a slot is free, so they grow by themselves while the cards are
busy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from hypersonic.server.errors import CancelledError, QueueFullError, QueueTimeoutError, ServerError, UnavailableError
from hypersonic.server.inference.answer import Answer
from hypersonic.server.inference.pending import CompletionQueue, PendingRequest, Share
from hypersonic.server.scheduling.batch import NO_BATCH, NextBatch
from hypersonic.server.scheduling.fair_queue import FairQueue
from hypersonic.server.scheduling.lost_run import mark_lost
from hypersonic.server.scheduling.rule import BatchRule, Take, Wait, choose_batch

#: a request that was in this many runs whose instance was lost is not tried on another one
MAX_TIMEOUTS = 2


class DynamicBatcher:
    """Front ends' threads enqueue and withdraw; whoever runs batches takes them, ends their runs or puts them back.

    lock: reentrant; guards the queue, and whatever a scheduler has to change in one step with it. changed: under this lock,
    notified when something else than a new request may have made a batch due.
    """

    #: whether it minds which instance runs a batch
    pinned = False

    def __init__(self, rule: BatchRule) -> None:
        self.rule = rule
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._queue = FairQueue(fair=not rule.keep_order)
        self._completion_queue = CompletionQueue() if rule.keep_order else None
        self._closed: ServerError | None = None
        self._suspended: ServerError | None = None

    def __len__(self) -> int:
        """Requests waiting, the one partly taken included."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        """Whether new requests are refused."""
        return self._closed is not None

    def enqueue(self, pending: PendingRequest) -> None:
        """Raises QueueFullError, or the error the batcher was closed with."""
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
            pending.level = level
            pending.enqueued_ns = now
            pending.expires_ns = now + 1000 * timeout_us if timeout_us else 0
            pending.size_bytes = request.size_bytes
            self._queue.add(pending)
            if self._completion_queue is not None:
                self._completion_queue.add(pending)

    def _waiting(self, level: int) -> int:
        if not self.rule.levels:
            return len(self._queue)
        return sum(share.pending.level == level for share in self._queue)

    def withdraw(self, pending: PendingRequest, error: ServerError) -> None:
        """Take a request's waiting rows out of the queue; it fails with `error` unless all its rows are on their way."""
        with self.lock:
            pending.cancelled = True
            if self._queue.remove(pending):
                self._fail(pending, error)
                self.changed.notify()

    def expire(self) -> int:
        """Refuse or delay the requests whose timeout has come; ns until the next one's comes, 0 = there is none."""
        now_ns = time.monotonic_ns()
        with self.lock:
            for pending in self._queue.expired(now_ns):
                if self.rule.policy_of(pending.level).delay_on_timeout:
                    pending.expires_ns = 0
                    self._queue.delay(pending)
                else:
                    self._queue.remove(pending)
                    self._fail(pending, QueueTimeoutError())
            return max(1, self._queue.expires_ns - now_ns) if self._queue.expires_ns else 0

    def take(self, last: PendingRequest | None = None, instance: int = 0) -> NextBatch:  # noqa: ARG002
        """The next batch, if one is due. last: only one that this request is in to the end, with all before it.

        instance: which one would run it; any may here.
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
                share.pending.in_flight += 1
            return NextBatch(shares, 0)

    def _take(self, choice: Take, last: PendingRequest | None) -> tuple[Share, ...]:
        """The chosen shares out of the queue; none where `last` is not the last of them to the end."""
        share = self._queue[choice.requests - 1]
        cut = choice.rows < share.rows and choice.requests == 1
        if last is not None and (cut or share.pending is not last):
            return ()
        return (self._queue.cut(choice.rows),) if cut else self._queue.take(choice.requests)

    def keep_state(self, share: Share, answer: Answer) -> None:
        """The run's answer to a share, before the run ends: nothing of it is kept here."""

    def end_run(self, share: Share) -> bool:
        """A run with this share is over. Whether it was the request's last, so that the request is to be completed."""
        pending = share.pending
        with self.lock:
            pending.in_flight -= 1
            pending.rows_left -= share.rows
            if pending.error is not None:
                self._fail(pending, pending.error)
                return False
            return pending.rows_left == 0

    def fail(self, shares: Sequence[Share], error: ServerError) -> None:
        """A run with these shares failed for good."""
        with self.lock:
            for share in shares:
                share.pending.in_flight -= 1
                self._queue.remove(share.pending)
                self._fail(share.pending, error)

    def put_back(self, shares: Sequence[Share], error: ServerError, proven: ServerError | None = None) -> None:
        """The instance was lost: these shares go back to their places in the queue, each to run again alone.

        A request that ran alone because an earlier instance was lost with it fails with `proven`, the error of a request
        that is proven to end instances; with `error` where the caller has no such proof (None). Requests that were answered
        in part already, and those given up together, fail with `error`.
        """
        hopeless: list[Share] = []
        with self.lock:
            lost = list(dict.fromkeys(share.pending for share in shares))
            for pending in lost:
                pending.timeouts += 1
            for share in shares:
                pending = share.pending
                if pending.completed:
                    continue
                if pending.timeouts >= MAX_TIMEOUTS or pending.error is not None or pending.responses or pending.cancelled:
                    hopeless.append(share)
                    continue
                pending.in_flight -= 1
                self._queue.insert(share)
            for share in hopeless:
                pending = share.pending
                refusal = proven if proven is not None and pending.timeouts >= MAX_TIMEOUTS else error
                self.fail([share], CancelledError() if pending.cancelled else refusal)
            self._give_up(mark_lost(lost), error)
            self.changed.notify_all()

    def _give_up(self, given_up: Sequence[PendingRequest], error: ServerError) -> None:
        """None of these runs again, because others of their run have ended too many instances. The lock is held."""
        text = f"{error}; not tried again: other requests of its batch have ended the process or card one by one"
        for pending in given_up:
            if self._queue.remove(pending):
                self._fail(pending, UnavailableError(text))

    def close(self, error: ServerError) -> None:
        """No new requests: enqueue raises `error`. What waits is still taken."""
        with self.lock:
            self._closed = error
            self.changed.notify_all()

    def abandon(self, error: ServerError) -> None:
        """close(), and what waits fails with `error` too: nobody is left to take it."""
        with self.lock:
            self._closed = error
            self.suspend(error)
            self.changed.notify_all()

    def suspend(self, error: ServerError) -> None:
        """What waits fails with `error`, and so does what comes, until resume()."""
        with self.lock:
            self._suspended = error
            for pending in self._queue.clear():
                self._fail(pending, error)

    def resume(self) -> None:
        with self.lock:
            self._suspended = None

    def _fail(self, pending: PendingRequest, error: ServerError) -> None:
        """Record the first error; complete the request once none of its rows is on a card. The lock is held."""
        if pending.completed:
            return
        pending.error = pending.error or error
        if pending.in_flight == 0:
            pending.fail(pending.error)
