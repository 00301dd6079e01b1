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
    """The jobs of a closed loop. Each begins at a random point of an event, so that they are not in step."""

    def __init__(self, load: ClosedLoop, clients: Clients, clock: Clock, meter: Meter, seed: int) -> None:
        self._clients, self._clock, self._meter, self._calls = clients, clock, meter, load.calls_per_event
        random = Random(f"{seed} own work")
        self._draw = gamma(random, load.own_work_s / load.calls_per_event, load.own_work_cv)
        #: for each job, when its event began (negative: before the run), the part of its own work before a call, the calls left
        self._began_s = [-1.0] * load.jobs
        self._part_s = [self._draw() for _ in range(load.jobs)]
        self._left = [random.randrange(self._calls) + 1 for _ in range(load.jobs)]
        for job in range(load.jobs):
            clock.at(random.random() * self._part_s[job], self._call, job)

    def _call(self, job: int) -> None:
        self._clients.request(job, self._answered)

    def _answered(self, request: Request) -> None:
        job, now_s = request.client, self._clock.now
        self._left[job] -= 1
        if not self._left[job]:
            began_s = self._began_s[job]
            self._meter.event(now_s, now_s - began_s if began_s >= 0 else -1.0)
            self._began_s[job], self._left[job], self._part_s[job] = now_s, self._calls, self._draw()
        self._clock.at(now_s + self._part_s[job], self._call, job)


class Arrivals:
    """The arrivals of an open loop. Between two arrivals, the integral of the rate grows by a random amount."""

    def __init__(self, load: OpenLoop, clients: Clients, clock: Clock, seed: int) -> None:
        self._load, self._clients, self._clock, self._count = load, clients, clock, 0
        self._uniform = Random(f"{seed} arrivals").random
        clock.at(self._next_s(), self._arrive)

    def _arrive(self, _: None) -> None:
        now_s = self._clock.now
        if now_s > self._load.until_s:
            return
        self._clients.request(self._count % self._load.clients, _nothing)
        self._count += 1
        self._clock.at(self._next_s(), self._arrive)

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


def _nothing(_: Request) -> None:
    """A request of an open loop has ended."""
