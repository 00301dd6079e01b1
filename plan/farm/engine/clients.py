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
from hypersonic.plan.farm.loads import Load
from hypersonic.plan.farm.machines import Farm


class Clients:
    """All clients of a load.

    Attributes:
        unfinished: the number of requests that have not ended.
    """

    def __init__(self, farm: Farm, load: Load, count: int, clock: Clock, meter: Meter, seed: int) -> None:
        self._clock, self._meter = clock, meter
        self.network = Network(
            farm, load.call, load.client_bits_per_s, clock, meter, seed, answered=self._answered, failed=self._attempt_failed
        )
        self._deadline_s = math.inf if load.deadline_s is None else load.deadline_s
        #: requests with a deadline, in the order of deadlines; those at the head may be over
        self._deadlines: deque[Request] = deque()
        self._retry = load.retry
        self._tokens = [load.retry.tokens if load.retry else 0.0] * count
        self._random = Random(f"{seed} pauses").random
        self.unfinished = 0

    def request(self, client: int, ended: Callable[[Request], None]) -> None:
        """Begin a request.

        Args:
            ended: called with it when it is answered, refused or past its deadline.
        """
        now_s = self._clock.now
        request = Request(client, now_s, now_s + self._deadline_s, ended)
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
        self.network.send(request)

    def _answered(self, request: Request) -> None:
        now_s = self._clock.now
        if request.over:
            self._meter.wasted += 1
            return
        if self._retry is not None:
            tokens = self._tokens[request.client] + self._retry.per_success
            self._tokens[request.client] = min(self._retry.tokens, tokens)
        self._meter.answered(now_s, now_s - request.sent_s)
        self._end(request)

    def _attempt_failed(self, request: Request) -> None:
        """Try again after a pause, or end the request."""
        if request.over:
            return
        now_s, retry = self._clock.now, self._retry
        self.network.release(request)
        self._meter.refusals[int(now_s)] += 1
        if retry is not None and request.retries < retry.retries:
            pause_s = self._random() * min(retry.cap_s, retry.base_s * 2.0 ** min(request.retries, 60))
            if now_s + pause_s < request.deadline_s and self._tokens[request.client] >= 1:
                self._tokens[request.client] -= 1
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
