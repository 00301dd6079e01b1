# SPDX-License-Identifier: Apache-2.0
"""The batching rule: which of the requests that wait become the next run, and when. A pure function of the queue and the time.

A run carries at most `capacity_rows` rows (a slot). Rule, Triton's where Triton has one:

- the queue's order is given: priority levels, then clients in turn (fair_queue.py);
- only requests of one group (equal shapes, unless ragged) share a run;
- a request with more rows than a slot holds goes out in slots of its own, at once; its last rows are like a small request;
- requests that fit a slot are never cut: they are merged, first come first, as long as the sum fits;
- a request that has to run alone does so at once;
- the largest preferred_batch_size that some number of the first requests gives exactly is sent at once;
- otherwise a batch waits until it can grow no further or the oldest request has waited max_queue_delay; delay 0 sends
  what is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from hypersonic.server.config.schema import DynamicBatching, QueuePolicy


@dataclass(frozen=True)
class BatchRule:
    """The configuration's numbers in the batcher's units. merge: whether requests share runs at all. levels: of priority.

    policy: of the queue, and of the levels that have one of their own. keep_order: answers leave in the order of requests.
    """

    capacity_rows: int
    merge: bool = False
    preferred_rows: frozenset[int] = frozenset()
    max_delay_ns: int = 0
    policy: QueuePolicy = field(default_factory=QueuePolicy)
    levels: int = 0
    default_level: int = 0
    level_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)
    keep_order: bool = False

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
            levels=batching.priority_levels,
            default_level=batching.default_priority_level,
            level_policies=batching.priority_policies,
            keep_order=batching.preserve_ordering,
        )

    def level_of(self, priority: int) -> int:
        """The level of a request that asked for `priority`: what is not a level gets the default one, as in Triton."""
        return priority if 0 < priority <= self.levels else self.default_level

    def policy_of(self, level: int) -> QueuePolicy:
        return self.level_policies.get(level, self.policy)

    @cached_property
    def most_rows(self) -> int:
        """Rows beyond which waiting for more is pointless."""
        return max(self.preferred_rows, default=self.capacity_rows)


class QueuedRows(NamedTuple):
    """Rows of one request that wait. group: requests of different groups do not share a run. alone: it shares none at all."""

    rows: int
    enqueued_ns: int
    group: Hashable = None
    alone: bool = False


class Take(NamedTuple):
    """Run the first `requests` of the queue now, `rows` rows together: fewer than the first one has means its first rows."""

    requests: int
    rows: int


class Wait(NamedTuple):
    """Nothing is to run before this time, 0 = before something changes."""

    until_ns: int


def choose_batch(
    rule: BatchRule, queue: Iterable[QueuedRows], now_ns: int, *, expires_ns: int = 0, closing: bool = False
) -> Take | Wait:
    """queue: in the order in which it is to run; no more of it is read than decides. expires_ns: when the first timeout of a
    request in it comes, 0 = never: the queue is another one then. closing: no request will follow these."""
    waiting = iter(queue)
    first = next(waiting, None)
    if first is None:
        return Wait(expires_ns)
    rows, oldest_ns, group, alone = first
    if rows > rule.capacity_rows:
        return Take(1, rule.capacity_rows)
    merge, most_rows = rule.merge and not alone, rule.most_rows
    count, preferred = 1, Take(1, rows) if rows in rule.preferred_rows else None
    #: no request that comes later can be in this batch
    full = not merge
    for other in waiting:
        if not merge or other.alone or other.group != group or rows + other.rows > rule.capacity_rows:
            full = True
            break
        if preferred is None and rows + other.rows > most_rows:
            preferred = Take(count, rows)
        count, rows, oldest_ns = count + 1, rows + other.rows, min(oldest_ns, other.enqueued_ns)
        if rows in rule.preferred_rows:
            preferred = Take(count, rows)
    due_ns = oldest_ns + rule.max_delay_ns
    overdue = now_ns >= due_ns
    if preferred is not None and not (overdue and rule.max_delay_ns):
        return preferred
    if full or overdue or closing or rows >= most_rows:
        return Take(count, rows)
    return Wait(min(due_ns, expires_ns) if expires_ns else due_ns)
