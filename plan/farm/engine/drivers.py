# SPDX-License-Identifier: Apache-2.0
"""The sources of calls: jobs that wait for their answers, and arrivals at a rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from hypersonic.plan.farm.engine.clients import Clients
from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.meter import Meter
from hypersonic.plan.farm.engine.request import Request
from hypersonic.plan.farm.loads import ClosedLoop, OpenLoop


class Jobs:
    """The jobs of a closed loop. Each begins at a random point of an event, so that they are not in step.

    Lists have an entry for each event in flight; a job does the own work of its events in the order in which they are ready.
    """

    def __init__(self, load: ClosedLoop, clients: Clients, clock: Clock, meter: Meter, seed: str) -> None:
        self._clients, self._clock, self._meter, self._calls = clients, clock, meter, load.calls
        self._events, count, length = load.in_flight, load.jobs * load.in_flight, len(load.calls)
        random = Random(f"{seed} own work")
        self._draw = gamma(random, load.own_work_s / length, load.own_work_cv)
        #: when it began (negative: before the run), the part of its own work before a call, the calls left
        self._began_s = [-1.0] * count
        self._part_s = [self._draw() for _ in range(count)]
        self._left = [random.randrange(length) + 1 for _ in range(count)]
        #: when each job has no more own work to do
        self._free_s = [0.0] * load.jobs
        for event in range(count):
            clock.at(random.random() * self._part_s[event], self._call, event)

    def _call(self, event: int) -> None:
        self._clients.request(self._calls[-self._left[event]], event, self._answered)

    def _answered(self, request: Request) -> None:
        event, now_s = request.client, self._clock.now
        self._left[event] -= 1
        if not self._left[event]:
            began_s = self._began_s[event]
            self._meter.event(now_s, now_s - began_s if began_s >= 0 else -1.0)
            self._began_s[event], self._left[event], self._part_s[event] = now_s, len(self._calls), self._draw()
        job = event // self._events
        self._free_s[job] = end_s = max(now_s, self._free_s[job]) + self._part_s[event]
        self._clock.at(end_s, self._call, event)


class Arrivals:
    """The arrivals of an open loop. Between two arrivals, the integral of the rate grows by a random amount."""

    def __init__(self, load: OpenLoop, clients: Clients, clock: Clock, meter: Meter, seed: str) -> None:
        self._load, self._clients, self._clock, self._meter, self._count = load, clients, clock, meter, 0
        self._uniform = Random(f"{seed} arrivals").random
        clock.at(self._next_s(), self._arrive)

    def _arrive(self, _: None) -> None:
        now_s = self._clock.now
        if now_s > self._load.until_s:
            return
        self._begin(self._count % self._load.clients, now_s, 0)
        self._count += 1
        self._clock.at(self._next_s(), self._arrive)

    def _begin(self, client: int, began_s: float, index: int) -> None:
        """Make call `index` of an event, and the next ones after it."""

        def ended(_: Request) -> None:
            if index + 1 < len(self._load.calls):
                self._begin(client, began_s, index + 1)
            else:
                self._meter.event(self._clock.now, self._clock.now - began_s)

        self._clients.request(self._load.calls[index], client, ended)

    def _next_s(self) -> float:
        now_s, load = self._clock.now, self._load
        amount = -math.log(1.0 - self._uniform()) if load.poisson else 1.0
        if load.start_rate_per_s is not None and now_s < load.ramp_s:
            slope = (load.rate_per_s - load.start_rate_per_s) / load.ramp_s
            rate = load.start_rate_per_s + slope * now_s
            left_s = load.ramp_s - now_s
            in_ramp = left_s * (rate + load.rate_per_s) / 2
            if amount <= in_ramp:
                return now_s + 2 * amount / (rate + math.sqrt(rate * rate + 2 * slope * amount))
            now_s, amount = load.ramp_s, amount - in_ramp
        return now_s + amount / load.rate_per_s


def gamma(random: Random, mean_s: float, cv: float) -> Callable[[], float]:
    """Return a function that draws gamma-distributed times with this mean and coefficient of variation."""
    if not cv:
        return lambda: mean_s
    shape, draw = 1 / (cv * cv), random.gammavariate
    scale_s = mean_s / shape
    return lambda: draw(shape, scale_s)
