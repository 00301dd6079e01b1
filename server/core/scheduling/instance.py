# SPDX-License-Identifier: Apache-2.0
"""InstanceState: one instance as the scheduler sees it, and RunningBatch: a batch in one of its slots."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hypersonic.server.core.inference.backend import Execution, Instance, Slot
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.times import RunTimes


@dataclass(eq=False, slots=True)
class RunningBatch:
    """A batch and its slot, held by one thread from InstanceState.dispatch() to InstanceState.release().

    Attributes:
        starting: a lock held until the run is started.
        before: that lock of the batch dispatched before on this instance.
        taken_ns: when copying the input began.
        started: whether the run was started.
        done_ns: the latest time at which the run was over, 0 = unknown.
        free_ns: the same for the run before it. Times are monotonic.
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
        """Start the run, after the runs of all batches dispatched before. Raises BackendError."""
        with self.before:
            self.taken_ns = time.monotonic_ns()
            try:
                self.slot.start(self.shares)
                self.started = True
            finally:
                self.starting.release()


class InstanceState:
    """An instance as the scheduler sees it: its free slots and its runs in progress. Used under the batcher's lock."""

    def __init__(self, instance: Instance, index: int, *, standby: bool = False) -> None:
        self.name = instance.name
        self.index = index
        self.instance = instance
        self.figures = InstanceFigures(standby=standby, in_service=instance.in_service)
        self.free = list(instance.slots) if instance.in_service else []
        #: it has left its card for another model, or is about to: its runs end, then it waits for its turn
        self.leaving = not instance.in_service
        #: lost and being brought back: requests wait for it
        self.reviving = False
        #: oldest first; a batch that is no longer here has ended, or its requests went back to the queue
        self.running: list[RunningBatch] = []
        #: the number of slots that threads hold
        self.taken = 0
        self._last_done_ns = 0
        self._starting = threading.Lock()

    def dispatch(self, shares: tuple[Share, ...]) -> RunningBatch:
        """Give the batch a free slot: the one used last, whose memory may still be in the processor's cache."""
        before, self._starting = self._starting, threading.Lock()
        self._starting.acquire()
        batch = RunningBatch(self, self.free.pop(), shares, before, self._starting)
        self.running.append(batch)
        self.taken += 1
        return batch

    def complete(self, batch: RunningBatch, done_ns: int) -> bool:
        """Record that the batch's run was over at done_ns; return whether its requests still belong to this batch."""
        if batch not in self.running:
            return False
        if batch.started:
            self._end(batch, done_ns)
        self.running.remove(batch)
        return True

    def _end(self, batch: RunningBatch, done_ns: int) -> None:
        """Set the end of this run and of those before it: runs end in the order of their starts, whichever thread reports
        first."""
        for each in self.running:
            if not each.done_ns:
                each.free_ns, each.done_ns = self._last_done_ns, done_ns
                self._last_done_ns = max(self._last_done_ns, done_ns)
            if each is batch:
                return

    def add_run(self, batch: RunningBatch, execution: Execution) -> RunTimes:
        """Count the run of a complete batch and return its times; `answered_ns` is preliminary.

        An instance computes one run at a time: a run begins when its input has arrived and the run before it is over. The wait
        between the two is moved before `taken_ns`, so that it counts as queue time.
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
        """The requests in its slots whose run waits for another one; a request with several shares appears several times."""
        return (share.pending for batch in self.running[1:] for share in batch.shares)

    def release(self, batch: RunningBatch) -> None:
        """Take back the batch's slot."""
        self.taken -= 1
        if self.figures.in_service:
            self.free.append(batch.slot)

    def retire(self) -> list[Share]:
        """Take the instance out of service; return the shares that were in progress."""
        self.figures.in_service = False
        shares = [share for batch in self.running for share in batch.shares]
        self.running.clear()
        self.free.clear()
        return shares

    def leave(self) -> None:
        """Take the instance out of service; its runs go on."""
        self.figures.in_service = False
        self.leaving = True
        self.free.clear()

    def restore(self) -> None:
        """Put the instance back in service. No thread holds one of its slots."""
        self.figures.revived += not self.leaving
        self.reviving = self.leaving = False
        self.figures.in_service = True
        self.free = list(self.instance.slots)
