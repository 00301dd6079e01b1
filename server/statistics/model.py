# SPDX-License-Identifier: Apache-2.0
"""Triton's statistics of one model version, computed from the times at which a request enters each phase.

::

    arrived   enqueued     taken      launched     done        answered   finished
       |---------|-----------|-----------|-----------|-----------|----------|
                    queue    compute_input  compute_   compute_
                             (copy + H2D)   infer      output (D2H + copy)

A run whose input is on the card while another one works waits in its slot. That counts as queue time: its `taken` and
`launched` are moved later by the time it waited, as if the input had been copied just before the run began
(InstanceState.add_run).

The phases never add up to more than the whole, even for a request that needs several runs (`join_times`). As in Triton,
requests that are refused before they are queued are not counted.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from hypersonic.server.errors import FailureReason
from hypersonic.server.statistics.duration import Duration, copied
from hypersonic.server.statistics.latency import Latencies
from hypersonic.server.statistics.responses import ResponseOutcome, ResponseStatistics
from hypersonic.server.statistics.times import RunTimes


@dataclass(slots=True)
class BatchDurations:
    """The times of all runs of one batch size."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)

    def add(self, times: RunTimes) -> None:
        """Add one run."""
        self.compute_input.add(times.launched_ns - times.taken_ns)
        self.compute_infer.add(times.done_ns - times.launched_ns)
        self.compute_output.add(times.answered_ns - times.done_ns)


@dataclass(slots=True)
class Snapshot:
    """The statistics at one moment, counted since load.

    Attributes:
        last_inference_ms: time of the last run, since the epoch.
        inference_count: rows.
        execution_count: runs.
        batches: rows of a run -> times.
        responses: of a decoupled model.
    """

    last_inference_ms: int = 0
    inference_count: int = 0
    execution_count: int = 0
    success: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)
    failures: dict[FailureReason, Duration] = field(default_factory=lambda: {reason: Duration() for reason in FailureReason})
    batches: dict[int, BatchDurations] = field(default_factory=dict)
    latencies: Latencies = field(default_factory=Latencies)
    responses: ResponseStatistics = field(default_factory=ResponseStatistics)

    @property
    def fail(self) -> Duration:
        """All failures together, whatever their reason."""
        return Duration(sum(d.count for d in self.failures.values()), sum(d.ns for d in self.failures.values()))


class ModelStatistics:
    """The statistics of one model version. Any thread may add and read."""

    def __init__(self, latencies: Latencies | None = None) -> None:
        """Create a ModelStatistics.

        Args:
            latencies: the distributions to keep, None = none.
        """
        self._lock = threading.Lock()
        self._figures = Snapshot(latencies=latencies or Latencies())

    def add_run(self, rows: int, times: RunTimes) -> None:
        """Add a completed run of `rows` rows."""
        with self._lock:
            figures = self._figures
            figures.inference_count += rows
            figures.execution_count += 1
            figures.last_inference_ms = time.time_ns() // 1_000_000
            batch = figures.batches.get(rows)
            if batch is None:
                batch = figures.batches[rows] = BatchDurations()
            batch.add(times)

    def add_success(self, arrived_ns: int, enqueued_ns: int, times: RunTimes, finished_ns: int) -> None:
        """Add a request whose answer is ready to be sent. Times: of time.monotonic_ns()."""
        taken_ns, launched_ns, done_ns, answered_ns = times
        durations_ns = (
            *(finished_ns - arrived_ns, taken_ns - enqueued_ns),
            *(launched_ns - taken_ns, done_ns - launched_ns, answered_ns - done_ns),
        )
        with self._lock:
            figures = self._figures
            phases = figures.success, figures.queue, figures.compute_input, figures.compute_infer, figures.compute_output
            for phase, ns in zip(phases, durations_ns, strict=True):  # Duration.add() inlined, to save five calls
                phase.count += 1
                if ns > 0:
                    phase.ns += ns
            if figures.latencies.kept:
                figures.latencies.add(durations_ns, finished_ns)

    def add_first_response(self, duration_ns: int) -> None:
        """Add the time from the arrival of a decoupled model's request to its first answer."""
        with self._lock:
            self._figures.latencies.add_first_response(duration_ns)

    def add_response(self, index: int, outcome: ResponseOutcome, infer_ns: int, output_ns: int) -> None:
        """Add response number `index`, from 0, of a decoupled model to a request."""
        with self._lock:
            self._figures.responses.add(index, outcome, infer_ns, output_ns)

    def add_failure(self, reason: FailureReason, duration_ns: int) -> None:
        """Add a request that matched its model and failed."""
        with self._lock:
            self._figures.failures[reason].add(duration_ns)

    def snapshot(self) -> Snapshot:
        """Return a consistent copy of the statistics."""
        with self._lock:
            return copied(self._figures)
