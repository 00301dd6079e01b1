# SPDX-License-Identifier: Apache-2.0
"""The batching rule that a server of the farm follows, as a protocol.

`plan` does not import `server`, so the rule is handed in. The server's own one is `choose_batch` of
server/core/scheduling/rule.py, here imported as `server`, with the `rule` of a model::

    def choose(queue: Iterable[Queued], now_ns: int) -> Take | Wait:
        choice = server.choose_batch(rule, (server.QueuedRows(*each) for each in queue), now_ns)
        return Take(*choice) if isinstance(choice, server.Take) else Wait(*choice)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Queued(NamedTuple):
    """A waiting request: its rows that are not yet in an execution, and when it was queued, in ns of simulated time."""

    rows: int
    enqueued_ns: int


class Take(NamedTuple):
    """Execute the first `requests` of the queue now, `rows` rows in total.

    If `rows` is less than the first request has, its first rows are taken; the others stay at the head of the queue.
    """

    requests: int
    rows: int


class Wait(NamedTuple):
    """Execute nothing before this simulated time in ns; 0 = before the queue changes."""

    until_ns: int


class Batching(Protocol):
    """A pure function from the queue and the time to the next execution. It is asked whenever a slot of a unit is free and the
    queue is not empty: when a request is queued, when an execution ends, and when a Wait is over.
    """

    def __call__(self, queue: Iterable[Queued], now_ns: int, /) -> Take | Wait:
        """Return the next execution, or the end of the wait. Only as much of `queue` has to be read as the decision needs."""
        ...
