# SPDX-License-Identifier: Apache-2.0
"""The clients: attempts, deadlines and retry budgets."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from random import Random

from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.meter import Meter
from hypersonic.plan.farm.engine.network import Network
from hypersonic.plan.farm.engine.request import Request
from hypersonic.plan.farm.loads import Call, ClosedLoop, Load


class Clients:
    """All clients of a load.

    Attributes:
        client_bits_per_s: of each client's own network.
        unfinished: the number of requests that have not ended.

    Args:
        seed: different for each load of a simulation.
    """

    def __init__(self, network: Network, load: Load, clock: Clock, meter: Meter, seed: str) -> None:
        self._clock, self._meter, self.network = clock, meter, network
        self.client_bits_per_s = load.client_bits_per_s
        count, self._events = (load.jobs, load.in_flight) if isinstance(load, ClosedLoop) else (load.clients, 1)
        self._deadline_s = math.inf if load.deadline_s is None else load.deadline_s
        #: requests with a deadline, in the order of deadlines; those at the head may be over
        self._deadlines: deque[Request] = deque()
        self._retry = load.retry
        self._tokens = [load.retry.tokens if load.retry else 0.0] * count
        self._random = Random(f"{seed} pauses").random
        self.unfinished = 0

    def request(self, call: Call, client: int, ended: Callable[[Request], None]) -> None:
        """Begin a request.

        Args:
            client: its number; of a job with several events in flight, the number of the event.
            ended: called with it when it is answered, refused or past its deadline.
        """
        now_s = self._clock.now
        request = Request(self, call, client, now_s, now_s + self._deadline_s, ended)
        self.unfinished += 1
        self._meter.requests[int(now_s)] += 1
        if self._deadline_s < math.inf:
            self._deadlines.append(request)
            if len(self._deadlines) == 1:
                self._clock.at(request.deadline_s, self._expire)
        self._send(request)

    def _send(self, request: Request) -> None:
        if request.over:
            return
        self._meter.attempts[int(self._clock.now)] += 1
        self.network.send(request, 8.0 * request.call.request_bytes / self.client_bits_per_s)

    def served(self, queue_s: float) -> None:
        """Record a request that a unit finished."""
        self._meter.served(self._clock.now, queue_s)

    def answered(self, request: Request) -> None:
        """End a request with its answer, unless it has ended before."""
        now_s = self._clock.now
        if request.over:
            self._meter.wasted += 1
            return
        if self._retry is not None:
            client = request.client // self._events
            self._tokens[client] = min(self._retry.tokens, self._tokens[client] + self._retry.per_success)
        self._meter.answered(now_s, now_s - request.sent_s, request.call.model)
        self._end(request)

    def attempt_failed(self, request: Request) -> None:
        """Try again after a pause, or end the request."""
        if request.over:
            return
        now_s, retry = self._clock.now, self._retry
        self.network.release(request)
        self._meter.refusals[int(now_s)] += 1
        if retry is not None and request.retries < retry.retries:
            pause_s = self._random() * min(retry.cap_s, retry.base_s * 2.0 ** min(request.retries, 60))
            client = request.client // self._events
            if now_s + pause_s < request.deadline_s and self._tokens[client] >= 1:
                self._tokens[client] -= 1
                request.retries += 1
                self._clock.at(now_s + pause_s, self._send, request)
                return
        self._meter.refused_request(now_s)
        self._end(request)

    def _expire(self, _: None) -> None:
        """End the requests whose deadline has come."""
        deadlines, now_s = self._deadlines, self._clock.now
        while deadlines and (deadlines[0].over or deadlines[0].deadline_s <= now_s):
            request = deadlines.popleft()
            if not request.over:
                self._meter.expired_request(now_s)
                request.over = True
                self.network.expire(request)
                self._end(request)
        if deadlines:
            self._clock.at(deadlines[0].deadline_s, self._expire)

    def _end(self, request: Request) -> None:
        request.over = True
        self.network.release(request)
        self.unfinished -= 1
        request.ended(request)
