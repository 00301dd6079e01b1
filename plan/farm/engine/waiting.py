# SPDX-License-Identifier: Apache-2.0
"""The queue of a server, and how executions are formed from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from hypersonic.plan.farm.batching import Batching, Queued, Take, Wait
from hypersonic.plan.farm.engine.request import Request
from hypersonic.plan.farm.errors import FarmError


class Share(NamedTuple):
    """The rows of one request in one execution."""

    request: Request
    rows: int


class WaitingRequests:
    """Requests in FIFO order. Those that are over stay in the deque until they are at its head; they are skipped, not counted.

    Attributes:
        waiting: the number of requests that are not over.
        dropped: the number of those that left without an execution.
    """

    __slots__ = ("_batching", "_requests", "dropped", "waiting")

    def __init__(self, batching: Batching | None) -> None:
        self._requests: deque[Request] = deque()
        self._batching = batching
        self.waiting = self.dropped = 0

    @property
    def oldest_s(self) -> float | None:
        """When the oldest waiting request was queued; None without one."""
        return next((each.enqueued_s for each in self._requests if not each.over), None)

    def append(self, request: Request) -> None:
        """Queue a request."""
        request.queued = True
        self.waiting += 1
        self._requests.append(request)

    def put_back(self, shares: list[Share]) -> None:
        """Put rows whose execution was lost at the head, in the order given."""
        for request, rows in reversed(shares):
            request.left_rows += rows
            if not request.over and not request.queued:
                request.queued = True
                self.waiting += 1
                self._requests.appendleft(request)

    def expire(self, request: Request) -> None:
        """Stop counting a request whose deadline has passed; it is over."""
        if request.queued:
            request.queued = False
            self.waiting -= 1
            self.dropped += request.left_rows == request.unfinished_rows

    def clear(self) -> list[Request]:
        """Remove all requests, and return those that are not over."""
        left = [request for request in self._requests if not request.over]
        for request in left:
            request.queued = False
        self._requests.clear()
        self.waiting = 0
        return left

    def next(self, now_s: float) -> list[Share] | float:
        """Return the next execution, or the time in seconds to ask again, 0 = when the queue has changed."""
        while self._requests and self._requests[0].over:
            self._requests.popleft()
        if not self._requests:
            return 0.0
        if self._batching is None:
            return [self._take_all()]
        now_ns = round(now_s * 1e9)
        choice = self._batching(self._queued(), now_ns)
        if isinstance(choice, Wait):
            if 0 < choice.until_ns <= now_ns:
                raise FarmError(
                    f"the batching rule waits until {choice.until_ns} ns at {now_ns} ns; expected a later time, 0 or a Take"
                )
            return choice.until_ns / 1e9
        return self._take(choice)

    def _queued(self) -> Iterator[Queued]:
        return (Queued(each.left_rows, round(each.enqueued_s * 1e9)) for each in self._requests if not each.over)

    def _take(self, choice: Take) -> list[Share]:
        first = self._requests[0]
        if not 0 < choice.requests <= self.waiting or choice.rows < 1:
            raise FarmError(f"the batching rule returns {choice} for {self.waiting} requests; expected 1 of each or more")
        if choice.requests == 1 and choice.rows < first.left_rows:
            first.left_rows -= choice.rows
            return [Share(first, choice.rows)]
        shares: list[Share] = []
        while len(shares) < choice.requests:
            if self._requests[0].over:
                self._requests.popleft()
            else:
                shares.append(self._take_all())
        return shares

    def _take_all(self) -> Share:
        """Take all rows of the first request, which is not over."""
        request = self._requests.popleft()
        rows, request.left_rows, request.queued = request.left_rows, 0, False
        self.waiting -= 1
        return Share(request, rows)
