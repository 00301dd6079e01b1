# SPDX-License-Identifier: Apache-2.0
"""Gates for the resources that models share: a direction of the card's PCIe link, and a compute unit. Any thread may use them.

::

    Gate       transfers of a direction of the link, a few at a time; FairPlaces chooses the next
    UnitGate   runs in flight on a compute unit, all of one flow: runs of different models never overlap in the kernel, so that
               an access error or a hang is one model's own
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from hypersonic.firmware.platform import TRANSFERS_IN_FLIGHT
from hypersonic.host.sharing.order import FairOrder, FairPlaces, Flow, Turn

#: the most runs of a flow in flight on a shared unit while no other flow waits: one computes, one is queued
RUNS_IN_FLIGHT = 2


class _Gate:
    """The common part of both gates. Turns that wait each hold a lock of their own, which is released when they are due."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wakes: dict[Turn, Lock] = {}

    def _wait(self, turn: Turn) -> None:
        """Wait until the turn is due. The lock is held, and is released."""
        wake = self._wakes[turn] = Lock()
        wake.acquire()
        self._lock.release()
        wake.acquire()

    def _wake(self, turns: Iterable[Turn]) -> None:
        """Let those turns that wait go on. The lock is held."""
        for turn in turns:
            if turn in self._wakes:
                self._wakes.pop(turn).release()


class Gate(_Gate):
    """Transfers in one direction of a card's link.

    Args:
        places: how many are in flight at the same time; the others wait.
    """

    def __init__(self, places: int = TRANSFERS_IN_FLIGHT) -> None:
        super().__init__()
        self._fair = FairPlaces(places)

    def enter(self, flow: Flow, size_bytes: int) -> None:
        """Wait until a transfer of the flow may begin; leave() ends it."""
        self._lock.acquire()
        turn = Turn(flow, size_bytes)
        given = self._fair.enter(turn)
        self._wake(given)
        if turn in given:
            self._lock.release()
        else:
            self._wait(turn)

    def leave(self, flow: Flow) -> None:
        """End a transfer of the flow, and begin those that are due."""
        with self._lock:
            self._wake(self._fair.leave(flow))


class UnitGate(_Gate):
    """The runs in flight on a compute unit.

    While flows compete, a flow starts a run when none is in flight. The flow of the last run is preferred as long as it is
    ahead of its place by no more bytes than its weights have, since another flow's run reloads the weights. A flow that uses
    the unit alone starts runs without limit.
    """

    def __init__(self) -> None:
        super().__init__()
        self._order = FairOrder()
        self._flows: list[Flow] = []
        self._slack: dict[Flow, int] = {}
        self._last: Flow | None = None
        self._in_flight = 0
        self._closed = False

    def join(self, flow: Flow, weights_bytes: int) -> None:
        """Let a flow use the unit.

        Args:
            weights_bytes: size of the weights that its first run after another flow's reloads.
        """
        with self._lock:
            self._flows.append(flow)
            self._slack[flow] = weights_bytes

    def leave(self, flow: Flow) -> None:
        """End a flow's use of the unit. Its runs are over."""
        with self._lock:
            if flow in self._slack:
                self._flows.remove(flow)
                del self._slack[flow]
            if self._last is flow:  # a run that ended without finish() was not reported by done()
                self._last, self._in_flight = None, 0
            self._go_on()

    def enter(self, flow: Flow, size_bytes: int) -> bool:
        """Wait until the flow may start a run. Return False if the gate was closed: no run may be started any more."""
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            return False
        if len(self._flows) <= 1 and self._last in (flow, None):
            self._last = flow
            self._in_flight += 1
            self._lock.release()
            return True
        turn = Turn(flow, size_bytes)
        self._order.add(turn)
        if self._order.next(self._last, self._slack_of_last()) is turn and self._free(flow):
            self._start(turn)
            self._lock.release()
            return True
        self._wait(turn)
        return not self._closed

    def done(self) -> None:
        """Report that a run has ended and the unit was checked after it, or that the run was not started."""
        with self._lock:
            self._in_flight -= 1
            if self._order:
                self._go_on()

    def close(self) -> None:
        """Refuse all further runs, because the unit is out of service."""
        with self._lock:
            self._closed = True
            for turn, wake in self._wakes.items():
                self._order.remove(turn)
                wake.release()
            self._wakes.clear()

    def _slack_of_last(self) -> float:
        return self._slack.get(self._last, 0) if self._last is not None else 0

    def _free(self, flow: Flow) -> bool:
        """Return whether a run of the flow may be started now."""
        if self._in_flight == 0:
            return True
        return self._last is flow and self._in_flight < RUNS_IN_FLIGHT and not self._order.others(flow)

    def _start(self, turn: Turn) -> None:
        self._last = turn.flow
        self._in_flight += 1
        self._order.take(turn)
        self._wake([turn])

    def _go_on(self) -> None:
        while (due := self._order.next(self._last, self._slack_of_last())) is not None and self._free(due.flow):
            self._start(due)
