# SPDX-License-Identifier: Apache-2.0
"""InstanceState: one instance as the scheduler sees it, and RunningBatch: a batch in one of its slots."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hypersonic.server.inference.backend import Execution, Instance, Slot
from hypersonic.server.inference.pending import PendingRequest, Share
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.times import RunTimes


@dataclass(eq=False, slots=True)
class RunningBatch:
    """A batch and the slot it was given, in the hands of one thread from InstanceState.dispatch() to InstanceState.release().

    starting: held until the run is started. before: the same of the batch taken before on this instance. taken_ns: when its
    input began to be copied. started: whether its run was started. done_ns: when that was over at the latest, 0 = not known
    yet; free_ns: when the run before it was.
    """

    state: InstanceState
    slot: Slot
    shares: tuple[Share, ...]
    before: threading.Lock
    starting: threading.Lock
    taken_ns: int = 0
    started: bool = False
    free_ns: int = 0
    done_ns: int = 0

    def start(self) -> None:
        """Start the run, after those of all batches taken before. Raises BackendError."""
        with self.before:
            self.taken_ns = time.monotonic_ns()
            try:
                self.slot.start(self.shares)
                self.started = True
            finally:
                self.starting.release()


class InstanceState:
    """An instance as the scheduler sees it: its free slots and its runs under way, under the batcher's lock."""

    def __init__(self, instance: Instance, index: int, *, standby: bool = False) -> None:
        self.name = instance.name
        self.index = index
        self.instance = instance
        self.figures = InstanceFigures(standby=standby)
        self.free = list(instance.slots)
        #: lost, and soon back: requests wait for it
        self.reviving = False
        #: oldest first; a batch that is not here any more has ended, or somebody else took its requests over
        self.running: list[RunningBatch] = []
        #: slots in some thread's hands
        self.taken = 0
        self._last_done_ns = 0
        self._starting = threading.Lock()

    def dispatch(self, shares: tuple[Share, ...]) -> RunningBatch:
        """Give the batch a free slot, the one last used: its memory may still be in the processor's cache."""
        before, self._starting = self._starting, threading.Lock()
        self._starting.acquire()
        batch = RunningBatch(self, self.free.pop(), shares, before, self._starting)
        self.running.append(batch)
        self.taken += 1
        return batch

    def complete(self, batch: RunningBatch, done_ns: int) -> bool:
        """The batch's run is over since done_ns. Whether its requests are still this batch's to complete."""
        if batch not in self.running:
            return False
        if batch.started:
            self._end(batch, done_ns)
        self.running.remove(batch)
        return True

    def _end(self, batch: RunningBatch, done_ns: int) -> None:
        """Runs end in the order of their starts: those before it are over too, also where their threads come later."""
        for each in self.running:
            if not each.done_ns:
                each.free_ns, each.done_ns = self._last_done_ns, done_ns
                self._last_done_ns = max(self._last_done_ns, done_ns)
            if each is batch:
                return

    def add_run(self, batch: RunningBatch, execution: Execution) -> RunTimes:
        """Count the run of a batch that is complete; its times, not answered yet.

        An instance computes one run at a time: this one began once its input was there and the run before it was over. Its
        wait between the two comes before `taken`, so that it is queue time.
        """
        done_ns = batch.done_ns
        begun_ns = min(max(execution.launched_ns, batch.free_ns), done_ns)
        self.figures.runs += 1
        self.figures.bytes_in += execution.bytes_in
        self.figures.bytes_out += execution.bytes_out
        self.figures.busy_ns += done_ns - begun_ns
        return RunTimes(begun_ns - (execution.launched_ns - batch.taken_ns), begun_ns, done_ns, done_ns)

    @property
    def waiting(self) -> Iterator[PendingRequest]:
        """The requests in its slots whose run is behind another one, perhaps several times each."""
        return (share.pending for batch in self.running[1:] for share in batch.shares)

    def release(self, batch: RunningBatch) -> None:
        """The slot is nobody's any more."""
        self.taken -= 1
        if self.figures.in_service:
            self.free.append(batch.slot)

    def retire(self) -> list[Share]:
        """Out of service; what it had in flight."""
        self.figures.in_service = False
        shares = [share for batch in self.running for share in batch.shares]
        self.running.clear()
        self.free.clear()
        return shares

    def restore(self) -> None:
        """Back in service; no thread has one of its slots."""
        self.reviving = False
        self.figures.in_service = True
        self.figures.revived += 1
        self.free = list(self.instance.slots)
