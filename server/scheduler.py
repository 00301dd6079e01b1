# SPDX-License-Identifier: Apache-2.0
"""Scheduler: whoever finds a batch due and a slot free takes both, runs the batch and completes its requests.

    thread of request A:   start A | ...wait... | answer A
    thread of request B:             start B | ...wait............... | answer B
    a runner (C waited):                          start C | ...wait..................... | answer C
    compute unit:              [------ A ------][------ B ------][------ C ------]

Usually that is the request's own thread: a request that makes a batch due and finds a slot free is run without a change of
threads. Everything else (batches that wait for more requests, for a slot, or for another try; requests larger than a slot)
is done by runners, one thread per slot, so that no free slot is ever left without a thread. Batches are taken oldest first
by both: a request's own thread only takes a batch that leaves nobody waiting before it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypersonic.server.backend import Instance, Launched, Slot
from hypersonic.server.batcher import DynamicBatcher
from hypersonic.server.errors import BackendError, InstanceLostError, InstanceTimeoutError, ServerError, UnavailableError
from hypersonic.server.pending import Part, PendingRequest, Share
from hypersonic.server.statistics import ModelStatistics, RunTimes

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class InstanceFigures:
    """What one instance did since load; read by /metrics. busy_ns: with a run in flight."""

    runs: int = 0
    timeouts: int = 0
    busy_ns: int = 0
    in_service: bool = True


@dataclass(eq=False, slots=True)
class Flight:
    """A batch and the slot it was given, in the hands of one thread from Lane.board() to Lane.leave().

    starting: held until the run is started. before: the same of the flight taken before on this instance.
    """

    lane: Lane
    slot: Slot
    shares: tuple[Share, ...]
    taken_ns: int
    before: threading.Lock
    starting: threading.Lock

    def start(self) -> None:
        """Start the run, after those of all batches taken before. Raises BackendError."""
        with self.before:
            try:
                self.slot.start(self.shares)
            finally:
                self.starting.release()


class Lane:
    """An instance as the scheduler sees it: its free slots and its runs under way, under the batcher's lock."""

    def __init__(self, instance: Instance) -> None:
        self.name = instance.name
        self.figures = InstanceFigures()
        self.free = list(instance.slots)
        #: oldest first; a flight that is not here any more has ended, or somebody else took its requests over
        self.flights: list[Flight] = []
        #: slots in some thread's hands
        self.taken = 0
        self._last_done_ns = 0
        self._starting = threading.Lock()

    def board(self, shares: tuple[Share, ...]) -> Flight:
        """Give a free slot, the one last used: its memory may still be in the processor's cache."""
        before, self._starting = self._starting, threading.Lock()
        self._starting.acquire()
        flight = Flight(self, self.free.pop(), shares, time.monotonic_ns(), before, self._starting)
        self.flights.append(flight)
        self.taken += 1
        return flight

    def land(self, flight: Flight) -> bool:
        """The flight's run is over. Whether its requests are still this flight's to complete."""
        if flight not in self.flights:
            return False
        self.flights.remove(flight)
        return True

    def add_run(self, launched: Launched) -> None:
        self.figures.runs += 1
        self.figures.busy_ns += max(0, launched.done_ns - max(launched.launched_ns, self._last_done_ns))
        self._last_done_ns = max(self._last_done_ns, launched.done_ns)

    def leave(self, flight: Flight) -> None:
        """The slot is nobody's any more."""
        self.taken -= 1
        if self.figures.in_service:
            self.free.append(flight.slot)

    def retire(self) -> list[Share]:
        """Out of service for good; what it had in flight."""
        self.figures.in_service = False
        shares = [share for flight in self.flights for share in flight.shares]
        self.flights.clear()
        self.free.clear()
        return shares


class Scheduler:
    """The instances of one model version. on_lost: called on any thread when the last one went out of service."""

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
        self._lanes = tuple(Lane(instance) for instance in instances)
        self.figures = {lane.name: lane.figures for lane in self._lanes}
        self._statistics = statistics
        self._label = label
        self._on_lost = on_lost
        self._lock, self._changed = batcher.lock, batcher.changed
        self._lost: list[str] = []
        self._runners = [
            threading.Thread(target=self._run, name=f"{label}:{lane.name}:{index}", daemon=True)
            for lane in self._lanes
            for index in range(len(lane.free))
        ]
        for runner in self._runners:
            runner.start()

    @property
    def in_service(self) -> bool:
        """Whether any instance can still take a request."""
        return any(figures.in_service for figures in self.figures.values())

    @property
    def reason(self) -> str:
        """Why nothing is in service; empty while something is."""
        return "" if self.in_service else f"no compute unit is in service any more: {'; '.join(self._lost)}"

    def submit(self, pending: PendingRequest) -> None:
        """Queue a request; it may be completed on return, else soon: wait for it.

        Raises QueueFullError, or UnavailableError when nobody is left to serve it.
        """
        with self._lock:
            self.batcher.enqueue(pending)
            flight, _ = self._board(pending)
            if flight is None:
                self._call_runner()
        if flight is not None:
            self._fly(flight)

    def close(self, error: ServerError, timeout_s: float) -> bool:
        """Refuse new requests with `error`, serve what waits; whether all runs ended in time."""
        self.batcher.close(error)
        deadline = time.monotonic() + timeout_s
        for runner in self._runners:
            runner.join(max(0.0, deadline - time.monotonic()))
        return not any(runner.is_alive() for runner in self._runners)

    def _run(self) -> None:
        while (flight := self._next()) is not None:
            self._fly(flight)

    def _next(self) -> Flight | None:
        """Wait until a batch is due and a slot is free; None when there will never be one again."""
        with self._lock:
            while True:
                flight, patience_ns = self._board()
                if flight is not None:
                    self._call_runner()
                    return flight
                if self._ended:
                    return None
                self._changed.wait(patience_ns / 1e9 if patience_ns else None)

    def _board(self, last: PendingRequest | None = None) -> tuple[Flight | None, int]:
        """(a flight, 0), or (None, ns until it is worth asking again); last as for DynamicBatcher.take. The lock is held."""
        lane = self._freest
        if not lane.free:
            return None, 0
        due = self.batcher.take(last)
        return (lane.board(due.shares), 0) if due.shares else (None, due.patience_ns)

    @property
    def _freest(self) -> Lane:
        """The instance with the most free slots."""
        return max(self._lanes, key=lambda lane: len(lane.free))

    def _call_runner(self) -> None:
        """A request waits or a slot got free: somebody has to look whether that makes a flight. The lock is held."""
        if len(self.batcher) and self._freest.free:
            self._changed.notify()

    @property
    def _ended(self) -> bool:
        """Closed, and no request is left that could still want a slot. The lock is held."""
        return self.batcher.closed and not len(self.batcher) and not any(lane.taken for lane in self._lanes)

    def _fly(self, flight: Flight) -> None:
        """Run a batch and complete its requests. Raises nothing."""
        try:
            answered = self._carry(flight)
        except InstanceLostError as error:
            answered = None
            self._retire(flight.lane, error)
        except Exception as error:  # noqa: BLE001 - the last line of defence: the requests must not wait for ever
            answered = None
            _LOG.exception("%s: instance %s stopped", self._label, flight.lane.name)
            self._retire(flight.lane, BackendError(f"instance {flight.lane.name} failed: {type(error).__name__}"))
        finally:
            self._leave(flight)
        if answered is not None:
            self._release(flight, *answered)

    def _carry(self, flight: Flight) -> tuple[RunTimes, list[PendingRequest]] | None:
        """One run from its start to the framed answers; None when there is nothing to answer."""
        try:
            flight.start()
            launched = flight.slot.finish()
        except InstanceLostError:
            raise
        except BackendError as error:
            self._fail(flight, error)
            return None
        with self._lock:
            if not flight.lane.land(flight):
                return None
            flight.lane.add_run(launched)
        times = RunTimes(flight.taken_ns, launched.launched_ns, launched.done_ns, launched.done_ns)
        return times, self._answer(flight, times)

    def _fail(self, flight: Flight, error: BackendError) -> None:
        _LOG.error("%s: a run on %s failed: %s", self._label, flight.lane.name, error)
        with self._lock:
            if flight.lane.land(flight):
                self.batcher.fail(flight.shares, error)

    def _answer(self, flight: Flight, times: RunTimes) -> list[PendingRequest]:
        """Frame the answers out of the slot; the requests that are complete now."""
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
        return ready

    def _release(self, flight: Flight, times: RunTimes, ready: Sequence[PendingRequest]) -> None:
        """Let the requests' threads go."""
        # counted before any client knows, so that whoever asks after an answer finds it in the statistics
        rows = sum(share.rows for share in flight.shares)
        self._statistics.add_run(rows, times._replace(answered_ns=time.monotonic_ns()))
        for pending in ready:
            pending.release()

    def _leave(self, flight: Flight) -> None:
        with self._lock:
            flight.lane.leave(flight)
            self._call_runner()
            if self._ended:
                self._changed.notify_all()

    def _retire(self, lane: Lane, error: BackendError) -> None:
        """The instance is out of service for good; what it had in flight goes to another one, if there is one.

        Every thread with a run on it comes here; the first one acts for all.
        """
        with self._lock:
            lane.figures.timeouts += isinstance(error, InstanceTimeoutError)
            if not lane.figures.in_service:
                return
            shares = lane.retire()
            self._lost.append(str(error))
            last = not self.in_service
            gone = UnavailableError(f"{self._label}: {self.reason}")
            self.batcher.put_back(shares, gone if last else UnavailableError(f"{self._label}: {error}"))
            if last:
                self.batcher.abandon(gone)
        _LOG.error(
            "%s: %s is out of service: %s; %d requests go %s",
            *(self._label, lane.name, error, len(shares), "unanswered" if last else "to another one"),
        )
        if last:
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
