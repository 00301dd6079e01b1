# SPDX-License-Identifier: Apache-2.0
"""DynamicBatcher: the queue of one model version, and the rule by which rows of many clients become one run.

A run carries at most `capacity_rows` rows (a slot). Rule, Triton's where Triton has one:

- a request with more rows than a slot holds goes out in slots of its own, at once; its last rows are like a small request;
- requests that fit a slot are never cut: they are merged, oldest first, as long as the sum fits;
- the largest preferred_batch_size that some number of the oldest requests gives exactly is sent at once;
- otherwise a batch waits until it can grow no further or the oldest request has waited max_queue_delay; delay 0 sends
  what is there.

Batches are taken when a slot is free, so they grow by themselves while the cards are busy.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypersonic.server.config import DynamicBatching, QueuePolicy
from hypersonic.server.errors import QueueFullError, ServerError
from hypersonic.server.pending import PendingRequest, Share

#: a request that was in this many runs whose instance hung is not tried on another one
MAX_TIMEOUTS = 2
#: expires_ns of a request that timeout_action DELAY has moved behind all others
_DELAYED = -1


@dataclass(frozen=True)
class BatchRule:
    """The configuration's numbers in the batcher's units. merge: whether requests share runs at all."""

    capacity_rows: int
    merge: bool = False
    preferred_rows: frozenset[int] = frozenset()
    max_delay_ns: int = 0
    policy: QueuePolicy = field(default_factory=QueuePolicy)

    @classmethod
    def of(cls, capacity_rows: int, batching: DynamicBatching | None, max_batch_size: int) -> BatchRule:
        """capacity_rows: of the smallest slot. No run is larger than max_batch_size either."""
        capacity_rows = min(capacity_rows, max(1, max_batch_size))
        if batching is None:
            return cls(capacity_rows)
        return cls(
            capacity_rows,
            merge=True,
            preferred_rows=frozenset(size for size in batching.preferred_batch_sizes if size <= capacity_rows),
            max_delay_ns=1000 * batching.max_queue_delay_us,
            policy=batching.queue_policy,
        )

    @property
    def most_rows(self) -> int:
        """Rows beyond which waiting for more is pointless."""
        return max(self.preferred_rows, default=self.capacity_rows)


class Walk(NamedTuple):
    """The oldest `requests` requests, of `rows` rows together, fit one run.

    preferred: that many of them make a preferred batch, 0 = none do. full: the next request does not fit any more.
    """

    requests: int
    rows: int
    preferred: int
    full: bool


class Due(NamedTuple):
    """A batch; or, when shares is empty, how long until one is due: 0 = not before something arrives."""

    shares: tuple[Share, ...]
    patience_ns: int


_NOTHING = Due((), 0)


class DynamicBatcher:
    """Front ends' threads enqueue and withdraw; whoever runs batches takes them, lands them or puts them back.

    lock: reentrant; guards the queue, and whatever a scheduler has to change in one step with it. changed: under this lock,
    notified when something else than a new request may have made a batch due.
    """

    def __init__(self, rule: BatchRule) -> None:
        self.rule = rule
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._queue: deque[Share] = deque()
        self._closed: ServerError | None = None

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
        policy = self.rule.policy
        with self.lock:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            if policy.max_queue_size and len(self._queue) >= policy.max_queue_size:
                raise QueueFullError
            pending.enqueued_ns = now
            timeout_us = policy.timeout_of(pending.request.timeout_us)
            pending.expires_ns = now + 1000 * timeout_us if timeout_us else 0
            self._queue.insert(self._tail(), Share(pending, 0, pending.request.rows))

    def withdraw(self, pending: PendingRequest, error: ServerError) -> None:
        """Take a request's waiting rows out of the queue; it fails with `error` unless all its rows are on their way."""
        with self.lock:
            waiting = [share for share in self._queue if share.pending is pending]
            if not waiting:
                return
            for share in waiting:
                self._queue.remove(share)
            self._fail(pending, error)
            self.changed.notify()

    def take(self, last: PendingRequest | None = None) -> Due:
        """The next batch, if one is due. last: only one that this request is in to the end, with all before it."""
        with self.lock:
            due = self._next(time.monotonic_ns(), last)
            for share in due.shares:
                share.pending.in_flight += 1
            return due

    def _next(self, now_ns: int, last: PendingRequest | None) -> Due:
        rule, queue = self.rule, self._queue
        if rule.policy.delay_on_timeout:
            self._delay_expired(now_ns)
        if not queue:
            return _NOTHING
        if queue[0].rows > rule.capacity_rows:
            return _NOTHING if last is not None else Due((self._cut(queue.popleft()),), 0)
        walk = self._walk()
        waited_ns = now_ns - queue[0].pending.enqueued_ns
        overdue = waited_ns >= rule.max_delay_ns
        count = walk.requests
        if walk.preferred and not (overdue and rule.max_delay_ns):
            count = walk.preferred
        elif not (walk.full or overdue or walk.rows >= rule.most_rows or self._closed is not None):
            return Due((), rule.max_delay_ns - waited_ns)
        if last is not None and queue[count - 1].pending is not last:
            return _NOTHING
        return Due(tuple(queue.popleft() for _ in range(count)), 0)

    def _walk(self) -> Walk:
        """How far a batch of whole requests can reach from the head of the queue."""
        rule = self.rule
        rows = preferred = count = 0
        for share in self._queue:
            if count and (not rule.merge or rows + share.rows > rule.capacity_rows):
                return Walk(count, rows, preferred, full=True)
            if count and not preferred and rows + share.rows > rule.most_rows:
                preferred = count
            rows += share.rows
            count += 1
            if rows in rule.preferred_rows:
                preferred = count
        return Walk(count, rows, preferred, full=not rule.merge)

    def _cut(self, share: Share) -> Share:
        """The first slot of a request that is larger than a slot; its rest goes back to the head of the queue."""
        size = self.rule.capacity_rows
        self._queue.appendleft(Share(share.pending, share.first_row + size, share.rows - size))
        return Share(share.pending, share.first_row, size)

    def _delay_expired(self, now_ns: int) -> None:
        """timeout_action DELAY: requests past their timeout go behind all others, those yet to come included."""
        expired = [share for share in self._queue if 0 < share.pending.expires_ns <= now_ns]
        for share in expired:
            share.pending.expires_ns = _DELAYED
            self._queue.remove(share)
        self._queue.extend(expired)

    def _tail(self) -> int:
        """Where a new request goes: the end of the queue, but before the delayed ones."""
        if not self.rule.policy.delay_on_timeout:
            return len(self._queue)
        return sum(share.pending.expires_ns != _DELAYED for share in self._queue)

    def land(self, share: Share) -> bool:
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
                for other in [other for other in self._queue if other.pending is share.pending]:
                    self._queue.remove(other)
                self._fail(share.pending, error)

    def put_back(self, shares: Sequence[Share], error: ServerError) -> None:
        """The instance hung: these shares go to the head of the queue for another one, oldest first.

        Requests that did not fare better elsewhere before fail with `error`: one of them may be what hangs the instances.
        """
        hopeless: list[Share] = []
        with self.lock:
            for pending in {share.pending for share in shares}:
                pending.timeouts += 1
            for share in reversed(shares):
                pending = share.pending
                if pending.completed:
                    continue
                if pending.timeouts >= MAX_TIMEOUTS or pending.error is not None:
                    hopeless.append(share)
                    continue
                pending.in_flight -= 1
                self._queue.appendleft(share)
            self.changed.notify_all()
        self.fail(hopeless, error)

    def close(self, error: ServerError) -> None:
        """No new requests: enqueue raises `error`. What waits is still taken."""
        with self.lock:
            self._closed = error
            self.changed.notify_all()

    def abandon(self, error: ServerError) -> None:
        """close(), and what waits fails with `error` too: nobody is left to take it."""
        with self.lock:
            self._closed = error
            waiting = [share.pending for share in self._queue]
            self._queue.clear()
            for pending in waiting:
                self._fail(pending, error)
            self.changed.notify_all()

    def _fail(self, pending: PendingRequest, error: ServerError) -> None:
        """Record the first error; complete the request once none of its rows is on a card. The lock is held."""
        if pending.completed:
            return
        pending.error = pending.error or error
        if pending.in_flight == 0:
            pending.fail(pending.error)
