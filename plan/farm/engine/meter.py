# SPDX-License-Identifier: Apache-2.0
"""The meter: what happened in each second and after the warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypersonic.plan.farm.result import Second, Spread


class Shares:
    """The time for which something was busy: after the warm-up, in seconds."""

    __slots__ = ("_from_s", "_to_s", "busy_s")

    def __init__(self, from_s: float, to_s: float) -> None:
        self.busy_s, self._from_s, self._to_s = 0.0, from_s, to_s

    def add(self, begin_s: float, end_s: float, weight: float = 1.0) -> None:
        """Add an interval, of which the part after the warm-up and before the end counts, `weight` times."""
        if begin_s < self._from_s or end_s > self._to_s:
            begin_s, end_s = max(begin_s, self._from_s), min(end_s, self._to_s)
        if end_s > begin_s:
            self.busy_s += weight * (end_s - begin_s)


class Bins:
    """The time for which something was busy in each second of the run."""

    __slots__ = ("values",)

    def __init__(self, seconds: int) -> None:
        self.values = [0.0] * (seconds + 1)

    def add(self, begin_s: float, end_s: float, weight: float = 1.0) -> None:
        """Add an interval, `weight` times."""
        first, last = int(begin_s), int(end_s)
        if first == last:
            self.values[first] += weight * (end_s - begin_s)
            return
        self.values[first] += weight * (first + 1 - begin_s)
        for second in range(first + 1, last):
            self.values[second] += weight
        self.values[last] += weight * (end_s - last)


class Meter:
    """Records what the parts of the simulation report. Lists by second have one entry more than the run has seconds."""

    def __init__(self, seconds: float, warmup_s: float) -> None:
        self.seconds, self.warmup_s = seconds, warmup_s
        length = math.ceil(seconds)
        self.requests, self.attempts, self.answers, self.refusals, self.executions = ([0] * (length + 1) for _ in range(5))
        self.queue_s = [0.0] * (length + 1)
        self.waits: list[list[float]] = [[] for _ in range(length + 1)]
        self.busy, self.in_service = Bins(length), Bins(length)
        self.units_busy, self.units_in_service = Shares(warmup_s, seconds), Shares(warmup_s, seconds)
        #: over the whole run
        self.refused = self.expired = self.wasted = self.dropped = 0
        #: after the warm-up
        self.event_waits: list[float] = []
        self.call_waits: list[float] = []
        #: by the model that was called
        self.model_waits: dict[str, list[float]] = {}
        self.queue_waits: list[float] = []
        self.events = self.finished = self.measured_runs = self.measured_requests = self.measured_attempts = 0
        self.measured_refused = self.measured_ended = 0

    def answered(self, now_s: float, wait_s: float, model: str) -> None:
        """Record an answer of a model that a client received in time."""
        second = int(now_s)
        self.answers[second] += 1
        self.waits[second].append(wait_s)
        if now_s >= self.warmup_s:
            self.call_waits.append(wait_s)
            self.model_waits.setdefault(model, []).append(wait_s)
            self.measured_ended += 1

    def refused_request(self, now_s: float) -> None:
        """Record a request that ended without an answer and before its deadline."""
        self.refused += 1
        if now_s >= self.warmup_s:
            self.measured_refused += 1
            self.measured_ended += 1

    def expired_request(self, now_s: float) -> None:
        """Record a request whose deadline has passed."""
        self.expired += 1
        if now_s >= self.warmup_s:
            self.measured_ended += 1

    def event(self, now_s: float, duration_s: float) -> None:
        """Record an event that a job finished.

        Args:
            duration_s: negative if it did not begin in this run.
        """
        if now_s >= self.warmup_s:
            self.events += 1
            if duration_s >= 0:
                self.event_waits.append(duration_s)

    def execution(self, begin_s: float, end_s: float) -> None:
        """Record an execution that ended."""
        self.executions[int(end_s)] += 1
        if end_s >= self.warmup_s:
            self.measured_runs += 1
        self.unit_busy(begin_s, end_s)

    def unit_busy(self, begin_s: float, end_s: float) -> None:
        """Record the time of an execution, whether it ended or not."""
        self.busy.add(begin_s, end_s)
        self.units_busy.add(begin_s, end_s)

    def served(self, now_s: float, queue_s: float) -> None:
        """Record a request that a unit finished."""
        self.queue_s[int(now_s)] += queue_s
        if now_s >= self.warmup_s:
            self.finished += 1
            self.queue_waits.append(queue_s)

    def series(self) -> tuple[Second, ...]:
        """The run second by second. The last one may be a part of a second; its rates are per second all the same."""
        return tuple(self._second(index) for index in range(math.ceil(self.seconds)))

    def _second(self, index: int) -> Second:
        length_s = min(1.0, self.seconds - index)
        executions, in_service = self.executions[index], self.in_service.values[index]
        return Second(
            start_s=float(index),
            requests_per_s=self.requests[index] / length_s,
            attempts_per_s=self.attempts[index] / length_s,
            throughput_per_s=self.answers[index] / length_s,
            refused_per_s=self.refusals[index] / length_s,
            p99_s=spread(self.waits[index]).p99_s,
            busy_share=self.busy.values[index] / in_service if in_service else 0.0,
            queue_ms_per_execution=1000 * self.queue_s[index] / executions if executions else 0.0,
        )


def spread(times_s: Sequence[float]) -> Spread:
    """Return the mean and the quantiles of times; a quantile is the smallest time that is at or above that share."""
    count = len(times_s)
    if not count:
        return Spread(0, 0.0, 0.0, 0.0)
    ordered = sorted(times_s)
    p50_s, p99_s = (ordered[math.ceil(share * count) - 1] for share in (0.5, 0.99))
    return Spread(count, math.fsum(times_s) / count, p50_s, p99_s)
