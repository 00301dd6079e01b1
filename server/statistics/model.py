# SPDX-License-Identifier: Apache-2.0
"""Triton's statistics of one model version, from the times at each border a request crosses.

    arrived   enqueued     taken      launched     done        answered   finished
       |---------|-----------|-----------|-----------|-----------|----------|
                    queue    compute_input  compute_   compute_
                             (copy + H2D)   infer      output (D2H + copy)

A run whose input is on the card while another one works waits in its slot. That is queue time too: its `taken` and `launched`
are put as much later as it waited, as if the input had been copied just before the run began (InstanceState.add_run).

The parts never add up to more than the whole, also for a request that needs several runs (`join_times`). Requests refused
before they are queued are in no figure, as in Triton.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from hypersonic.server.errors import FailureReason
from hypersonic.server.statistics.duration import Duration
from hypersonic.server.statistics.latency import Latencies
from hypersonic.server.statistics.responses import ResponseOutcome, ResponseStatistics
from hypersonic.server.statistics.times import RunTimes


@dataclass(slots=True)
class BatchDurations:
    """Of all runs of one batch size."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)

    def add(self, times: RunTimes) -> None:
        self.compute_input.add(times.launched_ns - times.taken_ns)
        self.compute_infer.add(times.done_ns - times.launched_ns)
        self.compute_output.add(times.answered_ns - times.done_ns)

    def copy(self) -> BatchDurations:
        return BatchDurations(self.compute_input.copy(), self.compute_infer.copy(), self.compute_output.copy())


@dataclass(slots=True)
class Snapshot:
    """One moment's figures. last_inference_ms: since the epoch. batches: by rows of a run. responses: of a decoupled model."""

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

    def copy(self) -> Snapshot:
        return replace(
            self,
            success=self.success.copy(),
            queue=self.queue.copy(),
            compute_input=self.compute_input.copy(),
            compute_infer=self.compute_infer.copy(),
            compute_output=self.compute_output.copy(),
            failures={reason: duration.copy() for reason, duration in self.failures.items()},
            batches={rows: durations.copy() for rows, durations in self.batches.items()},
            latencies=self.latencies.copy(),
            responses=self.responses.copy(),
        )

    @property
    def failed(self) -> Duration:
        """All failures, whatever the reason."""
        return Duration(sum(d.count for d in self.failures.values()), sum(d.ns for d in self.failures.values()))


class ModelStatistics:
    """The figures of one model version; any thread may add or read. latencies: how they are to be distributed."""

    def __init__(self, latencies: Latencies | None = None) -> None:
        self._lock = threading.Lock()
        self._figures = Snapshot(latencies=latencies or Latencies())

    def add_run(self, rows: int, times: RunTimes) -> None:
        """A run of `rows` rows that completed."""
        with self._lock:
            figures = self._figures
            figures.inference_count += rows
            figures.execution_count += 1
            figures.last_inference_ms = time.time_ns() // 1_000_000
            figures.batches.setdefault(rows, BatchDurations()).add(times)

    def add_success(self, arrived_ns: int, enqueued_ns: int, times: RunTimes, finished_ns: int) -> None:
        """A request whose answer is ready to leave."""
        request_ns, queue_ns = finished_ns - arrived_ns, times.taken_ns - enqueued_ns
        input_ns, infer_ns = times.launched_ns - times.taken_ns, times.done_ns - times.launched_ns
        output_ns = times.answered_ns - times.done_ns
        with self._lock:
            figures = self._figures
            figures.success.add(request_ns)
            figures.queue.add(queue_ns)
            figures.compute_input.add(input_ns)
            figures.compute_infer.add(infer_ns)
            figures.compute_output.add(output_ns)
            if figures.latencies.kept:
                figures.latencies.add((request_ns, queue_ns, input_ns, infer_ns, output_ns), finished_ns)

    def add_first_response(self, duration_ns: int) -> None:
        """A decoupled model's first answer to a request, so long after its arrival."""
        with self._lock:
            self._figures.latencies.add_first_response(duration_ns)

    def add_response(self, index: int, outcome: ResponseOutcome, infer_ns: int, output_ns: int) -> None:
        """A decoupled model's response number `index` to a request, from 0."""
        with self._lock:
            self._figures.responses.add(index, outcome, infer_ns, output_ns)

    def add_failure(self, reason: FailureReason, duration_ns: int) -> None:
        """A request that fitted its model and failed all the same."""
        with self._lock:
            self._figures.failures[reason].add(duration_ns)

    def snapshot(self) -> Snapshot:
        """A consistent copy."""
        with self._lock:
            return self._figures.copy()
