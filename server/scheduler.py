# SPDX-License-Identifier: Apache-2.0
"""Scheduler: one thread per instance takes batches, runs them and completes their requests.

    thread of facile_1:   start A | start B  ...wait A... | answer A | start C  ...wait B... | answer B
    compute unit:                 [------ A ------][------ B ------][------ C ------]

With every slot in flight the thread waits for the oldest run; with a free slot it first looks whether a batch is due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypersonic.server.backend import Instance, Launched, Slot
from hypersonic.server.batcher import DynamicBatcher
from hypersonic.server.errors import BackendError, InstanceLostError, InstanceTimeoutError, ServerError, UnavailableError
from hypersonic.server.pending import Part, PendingRequest, Share
from hypersonic.server.statistics import ModelStatistics, RunTimes

_LOG = logging.getLogger(__name__)


class Flight(NamedTuple):
    """A run under way."""

    slot: Slot
    shares: tuple[Share, ...]
    rows: int
    taken_ns: int


@dataclass(slots=True)
class InstanceFigures:
    """What one instance did since load; written by its thread, read by /metrics. busy_ns: with a run in flight."""

    runs: int = 0
    timeouts: int = 0
    busy_ns: int = 0
    in_service: bool = True

    def add_run(self, launched: Launched, last_done_ns: int) -> None:
        self.runs += 1
        self.busy_ns += max(0, launched.done_ns - max(launched.launched_ns, last_done_ns))


class Scheduler:
    """The instances of one model version. on_lost: called on an instance's thread when the last one went out of service."""

    def __init__(
        self,
        instances: Sequence[Instance],
        batcher: DynamicBatcher,
        statistics: ModelStatistics,
        *,
        label: str,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.batcher = batcher
        self.figures = {instance.name: InstanceFigures() for instance in instances}
        self._statistics = statistics
        self._label = label
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._lost: list[str] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(instance,), name=f"{label}:{instance.name}", daemon=True)
            for instance in instances
        ]
        for thread in self._threads:
            thread.start()

    @property
    def in_service(self) -> bool:
        """Whether any instance can still take a request."""
        return any(figures.in_service for figures in self.figures.values())

    @property
    def reason(self) -> str:
        """Why nothing is in service; empty while something is."""
        return "" if self.in_service else f"no compute unit is in service any more: {'; '.join(self._lost)}"

    def submit(self, pending: PendingRequest) -> None:
        """Raises QueueFullError, or UnavailableError when nobody is left to serve it."""
        self.batcher.enqueue(pending)

    def close(self, error: ServerError, timeout_s: float) -> bool:
        """Refuse new requests with `error`, serve what waits; whether all threads ended in time."""
        self.batcher.close(error)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, instance: Instance) -> None:
        flights: deque[Flight] = deque()
        try:
            self._run(instance, flights)
        except InstanceLostError as error:
            self.figures[instance.name].timeouts += isinstance(error, InstanceTimeoutError)
            self._retire(instance, flights, error)
        except Exception as error:  # noqa: BLE001 - the thread's last line of defence: its requests must not wait for ever
            _LOG.exception("%s: instance %s stopped", self._label, instance.name)
            self._retire(instance, flights, BackendError(f"instance {instance.name} failed: {type(error).__name__}"))

    def _run(self, instance: Instance, flights: deque[Flight]) -> None:
        free = deque(instance.slots)
        last_done_ns = 0
        while True:
            shares = self.batcher.take(wait=not flights) if free else ()
            if shares:
                flight = Flight(free.popleft(), shares, sum(share.rows for share in shares), time.monotonic_ns())
                flights.append(flight)
                if not self._start(instance, flight):
                    flights.pop()
                    free.append(flight.slot)
            elif flights:
                last_done_ns = self._finish(instance, flights[0], last_done_ns)
                free.append(flights.popleft().slot)
            else:
                return

    def _start(self, instance: Instance, flight: Flight) -> bool:
        try:
            flight.slot.start(flight.shares)
        except InstanceLostError:
            raise
        except BackendError as error:
            self._fail(instance, flight, error)
            return False
        return True

    def _finish(self, instance: Instance, flight: Flight, last_done_ns: int) -> int:
        """Wait for a run and complete its requests; when its kernel was done."""
        try:
            launched = flight.slot.finish()
        except InstanceLostError:
            raise
        except BackendError as error:
            self._fail(instance, flight, error)
            return time.monotonic_ns()
        self.figures[instance.name].add_run(launched, last_done_ns)
        self._answer(flight, launched)
        return launched.done_ns

    def _fail(self, instance: Instance, flight: Flight, error: BackendError) -> None:
        _LOG.error("%s: a run on %s failed: %s", self._label, instance.name, error)
        self.batcher.fail(flight.shares, error)

    def _answer(self, flight: Flight, launched: Launched) -> None:
        times = RunTimes(flight.taken_ns, launched.launched_ns, launched.done_ns, launched.done_ns)
        first_row = 0
        ready: list[PendingRequest] = []
        for share in flight.shares:
            outputs = flight.slot.outputs(first_row, share.rows)
            first_row += share.rows
            if not share.whole:
                share.pending.parts.append(Part(share.first_row, tuple(bytes(output) for output in outputs), times))
            if self.batcher.land(share):
                _prepare(share, outputs, times)
                ready.append(share.pending)
        # counted before any client knows, so that whoever asks after an answer finds it in the statistics
        self._statistics.add_run(flight.rows, times._replace(answered_ns=time.monotonic_ns()))
        for pending in ready:
            pending.release()

    def _retire(self, instance: Instance, flights: deque[Flight], error: BackendError) -> None:
        """The instance is out of service for good; what it had in flight goes to another one, if there is one."""
        with self._lock:
            self.figures[instance.name].in_service = False
            self._lost.append(str(error))
            last = not self.in_service
        shares = [share for flight in flights for share in flight.shares]
        _LOG.error(
            "%s: %s is out of service: %s; %d requests go %s",
            *(self._label, instance.name, error, len(shares), "unanswered" if last else "to another one"),
        )
        gone = UnavailableError(f"{self._label}: {self.reason}")
        self.batcher.put_back(shares, gone if last else UnavailableError(f"{self._label}: {error}"))
        if last:
            self.batcher.abandon(gone)
            self._on_lost()


def _prepare(share: Share, outputs: Sequence[memoryview], times: RunTimes) -> None:
    """Frame the answer: straight from the slot, or from the parts of a request that took several runs."""
    pending = share.pending
    try:
        if share.whole:
            pending.prepare([(output,) for output in outputs], times)
        else:
            parts = sorted(pending.parts, key=lambda part: part.first_row)
            chunks = [[part.outputs[index] for part in parts] for index in range(len(outputs))]
            pending.prepare(chunks, _span([part.times for part in parts]))
    except Exception as error:  # noqa: BLE001 - one answer that cannot be framed must not take the instance down
        _LOG.exception("an answer could not be framed")
        pending.error = BackendError(f"the answer could not be framed: {type(error).__name__}")


def _span(times: Sequence[RunTimes]) -> RunTimes:
    """From the first run's start to the last run's end."""
    first = min(times, key=lambda t: t.taken_ns)
    last = max(times, key=lambda t: t.done_ns)
    return RunTimes(first.taken_ns, first.launched_ns, last.done_ns, last.answered_ns)
