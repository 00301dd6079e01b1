# SPDX-License-Identifier: Apache-2.0
"""The batching rule: which waiting requests become the next run, and when. A pure function of the queue and the time.

A run carries at most `capacity_rows` rows (one slot). The rules are Triton's where Triton has one:

- the queue's order is given: priority levels, then clients in turn (fair_queue.py);
- only requests of one group (equal shapes, unless ragged) share a run;
- a request with more rows than a slot holds is sent at once, in slots of its own; its last rows count as a small request;
- requests that fit a slot are never split: they are merged in the queue's order as long as the sum fits;
- a request that has to run alone is sent at once;
- the largest preferred_batch_size that equals the rows of the first n requests, for some n, is sent at once;
- otherwise a batch waits until it cannot grow further or the oldest request has waited max_queue_delay; with delay 0 the
  waiting requests are sent at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from hypersonic.server.core.config.schema import DynamicBatching, QueuePolicy


@dataclass(frozen=True)
class BatchRule:
    """The configuration's numbers in the batcher's units: rows, and ns.

    Attributes:
        merge: whether requests share runs at all.
        levels: the number of priority levels, 0 for none.
        policy: the queue's policy.
        level_policies: the policies of levels that have their own.
        keep_order: answers leave in the order of requests.
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
        """Derive the rule from a configuration.

        No run is larger than max_batch_size (0 counts as 1).

        Args:
            capacity_rows: of the smallest slot.
        """
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
        """Return the level of a request with this `priority`; an unknown level becomes the default one, as in Triton."""
        return priority if 0 < priority <= self.levels else self.default_level

    def policy_of(self, level: int) -> QueuePolicy:
        """Return the queue policy of a priority level."""
        return self.level_policies.get(level, self.policy)

    @cached_property
    def most_rows(self) -> int:
        """The number of rows from which waiting for more requests is useless."""
        return max(self.preferred_rows, default=self.capacity_rows)


class QueuedRows(NamedTuple):
    """Waiting rows of one request.

    Attributes:
        group: requests of different groups do not share a run.
        alone: it runs alone.
    """

    rows: int
    enqueued_ns: int
    group: Hashable = None
    alone: bool = False


class Take(NamedTuple):
    """Run the first `requests` of the queue now, `rows` rows in total. If the first request has more rows than that, only its
    first `rows` rows run."""

    requests: int
    rows: int


class Wait(NamedTuple):
    """Run nothing before this time, in monotonic ns; 0 = before something changes."""

    until_ns: int


def choose_batch(
    rule: BatchRule, queue: Iterable[QueuedRows], now_ns: int, *, expires_ns: int = 0, closing: bool = False
) -> Take | Wait:
    """Decide the next run. Only as much of `queue`, which is in the order of running, is read as the decision needs.

    Args:
        expires_ns: when the first timeout of a queued request expires, 0 = never; the queue changes then.
        closing: True if no further requests will arrive.
    """
    waiting = iter(queue)
    first = next(waiting, None)
    if first is None:
        return Wait(expires_ns)
    rows, oldest_ns, group, alone = first
    if rows > rule.capacity_rows:
        return Take(1, rule.capacity_rows)
    merge, most_rows = rule.merge and not alone, rule.most_rows
    count, preferred = 1, Take(1, rows) if rows in rule.preferred_rows else None
    #: no later request can be in this batch
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
