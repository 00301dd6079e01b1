# SPDX-License-Identifier: Apache-2.0
"""Lane: one instance as the scheduler sees it, and Flight: a batch in one of its slots."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from hypersonic.server.backend import Instance, Launched, Slot
from hypersonic.server.pending import Share


@dataclass(slots=True)
class InstanceFigures:
    """What one instance did since load; read by /metrics. busy_ns: with a run in flight. standby: runs only when no other
    instance is left. revived: how often it was lost and brought back. bytes_in, bytes_out: over its card's bus."""

    runs: int = 0
    timeouts: int = 0
    busy_ns: int = 0
    in_service: bool = True
    standby: bool = False
    revived: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


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

    def __init__(self, instance: Instance, index: int, *, standby: bool = False) -> None:
        self.name = instance.name
        self.index = index
        self.instance = instance
        self.figures = InstanceFigures(standby=standby)
        self.free = list(instance.slots)
        #: lost, and soon back: requests wait for it
        self.reviving = False
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
        self.figures.bytes_in += launched.bytes_in
        self.figures.bytes_out += launched.bytes_out
        self.figures.busy_ns += max(0, launched.done_ns - max(launched.launched_ns, self._last_done_ns))
        self._last_done_ns = max(self._last_done_ns, launched.done_ns)

    def leave(self, flight: Flight) -> None:
        """The slot is nobody's any more."""
        self.taken -= 1
        if self.figures.in_service:
            self.free.append(flight.slot)

    def retire(self) -> list[Share]:
        """Out of service; what it had in flight."""
        self.figures.in_service = False
        shares = [share for flight in self.flights for share in flight.shares]
        self.flights.clear()
        self.free.clear()
        return shares

    def restore(self) -> None:
        """Back in service; no thread has one of its slots."""
        self.reviving = False
        self.figures.in_service = True
        self.figures.revived += 1
        self.free = list(self.instance.slots)
