# SPDX-License-Identifier: Apache-2.0
"""A server in operation: its queue and its compute units."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.meter import Meter, Shares
from hypersonic.plan.farm.engine.request import Request
from hypersonic.plan.farm.engine.waiting import Share, WaitingRequests
from hypersonic.plan.farm.machines import Hosted, Server


class Unit:
    """A compute unit.

    Attributes:
        runs: those in its slots, of which the first one is executed.
        begun_s: when that one began.
    """

    __slots__ = ("begun_s", "card", "in_service", "runs")

    def __init__(self, card: int) -> None:
        self.card, self.in_service, self.begun_s = card, True, 0.0
        self.runs: deque[list[Share]] = deque()


class Station:
    """The queue and the units of a model on a server.

    Attributes:
        used_s: when its last run began.
        busy, present: the time that its units worked, and were in service, after the warm-up.

    Args:
        finished, failed: called with each request that is executed, refused or lost.
    """

    def __init__(
        self,
        hosted: Hosted,
        server: Server,
        clock: Clock,
        meter: Meter,
        random: Random,
        *,
        finished: Callable[[Request], None],
        failed: Callable[[Request], None],
    ) -> None:
        self._clock, self._meter, self._finished, self._failed = clock, meter, finished, failed
        self._time_of = hosted.service.sampler(random)
        self._slots, self._limit = hosted.slots_per_unit, hosted.queue_limit
        self.units = [Unit(card) for card in range(server.cards) for _ in range(hosted.units_per_card)]
        self.queue = WaitingRequests(hosted.batching)
        self.busy, self.present = Shares(meter.warmup_s, meter.seconds), Shares(meter.warmup_s, meter.seconds)
        self.used_s = 0.0
        #: for models that take turns: when it left its last card, what to call when it waits, and when a run has left a card
        self._left_s = 0.0
        self._changed: Callable[[], None] | None = None
        self._run_left: Callable[[int], None] | None = None
        self._idle = self.units[::-1]
        self._working = len(self.units)
        self._since_s = 0.0
        #: when to call the batching rule again, 0 = no such time
        self._due_s = 0.0

    def take_turns(self, *, changed: Callable[[], None], left: Callable[[int], None]) -> None:
        """Be on no card from now on, until restore() puts the model on one.

        Args:
            changed: called when requests begin to wait for a card, and when none waits any more.
            left: called with the card when a run that leave() has counted ends.
        """
        self._changed, self._run_left = changed, left
        for unit in self.units:
            unit.in_service = False
        self._idle, self._working = [], 0

    @property
    def serves(self) -> bool:
        """True while at least one card is in service, or will be when the model's turn comes."""
        return self._working > 0 or self._changed is not None

    @property
    def waits_since_s(self) -> float | None:
        """When the oldest waiting request arrived, or the model left its last card, if that was later; None = none waits."""
        oldest_s = self.queue.oldest_s
        return None if oldest_s is None else max(oldest_s, self._left_s)

    def arrive(self, request: Request) -> None:
        """Queue a request that has been received, or refuse it."""
        if request.over:
            return
        if not self.serves or (self._limit and self.queue.waiting >= self._limit):
            self._failed(request)
            return
        request.enqueued_s = self._clock.now
        self.queue.append(request)
        self._dispatch()
        if self._changed is not None and self.queue.waiting == 1:
            self._changed()

    def _dispatch(self) -> None:
        """Fill free slots from the queue."""
        while self.queue.waiting and (unit := self._free_unit()) is not None:
            run = self.queue.next(self._clock.now)
            if isinstance(run, float):
                if run and not 0 < self._due_s <= run:
                    self._due_s = run
                    self._clock.at(run, self._due, run)
                return
            unit.runs.append(run)
            if len(unit.runs) == 1:
                self._idle.pop()
                self._begin(unit)

    def _free_unit(self) -> Unit | None:
        """The unit for the next execution: an idle one, or the one with the most free slots."""
        if self._idle:
            return self._idle[-1]
        if self._slots == 1:
            return None
        unit = min((each for each in self.units if each.in_service), key=lambda each: len(each.runs), default=None)
        return unit if unit is not None and len(unit.runs) < self._slots else None

    def _due(self, due_s: float) -> None:
        if self._due_s == due_s:
            self._due_s = 0.0
            self._dispatch()

    def _begin(self, unit: Unit) -> None:
        run, now_s = unit.runs[0], self._clock.now
        unit.begun_s = self.used_s = now_s
        rows = 0
        for request, its_rows in run:
            rows += its_rows
            request.started_s = min(request.started_s, now_s)
        self._clock.at(now_s + self._time_of(rows), self._end, (unit, run))

    def _end(self, ended: tuple[Unit, list[Share]]) -> None:
        unit, run = ended
        if not unit.runs or unit.runs[0] is not run:
            return  # the card failed in the meantime
        unit.runs.popleft()
        now_s, meter = self._clock.now, self._meter
        meter.execution(unit.begun_s, now_s)
        self.busy.add(unit.begun_s, now_s)
        for request, rows in run:
            request.unfinished_rows -= rows
            if not request.unfinished_rows:
                request.owner.served(request.started_s - request.enqueued_s)
                self._finished(request)
        if unit.runs:
            self._begin(unit)
        elif unit.in_service:
            self._idle.append(unit)
        if not unit.in_service and self._run_left is not None:
            self._run_left(unit.card)
        self._dispatch()
        if self._changed is not None and not self.queue.waiting:
            self._changed()

    def leave(self, card: int) -> int:
        """Begin no more runs on a card, and return the number of those that still have to end there."""
        self._count_service()
        leaving = [unit for unit in self.units if unit.card == card and unit.in_service]
        for unit in leaving:
            unit.in_service = False
        self._working -= len(leaving)
        self._idle = [unit for unit in self._idle if unit.in_service]
        self._left_s = self._clock.now
        return sum(len(unit.runs) for unit in leaving)

    def fail(self, card: int) -> None:
        """Take a card out of service."""
        self._count_service()
        lost: list[Share] = []
        for unit in self.units:
            if unit.card == card and unit.in_service:
                unit.in_service = False
                self._working -= 1
                self._count_run(unit)
                lost += [share for run in unit.runs for share in run]
                unit.runs.clear()
        self._idle = [unit for unit in self._idle if unit.in_service]
        self.queue.put_back(lost)
        if not self._working:
            for request in self.queue.clear():
                self._failed(request)
        self._dispatch()

    def restore(self, card: int) -> None:
        """Put a card back in service."""
        self._count_service()
        back = [unit for unit in self.units if unit.card == card and not unit.in_service]
        for unit in back:
            unit.in_service = True
        self._working += len(back)
        self._idle += back
        self._dispatch()

    def close(self) -> None:
        """Record the executions that are under way at the end of the run."""
        self._count_service()
        for unit in self.units:
            self._count_run(unit)

    def _count_run(self, unit: Unit) -> None:
        """Record the run that has begun on a unit and will not end."""
        if unit.runs:
            self._meter.unit_busy(unit.begun_s, self._clock.now)
            self.busy.add(unit.begun_s, self._clock.now)

    def _count_service(self) -> None:
        """Record the units that have been in service until now."""
        now_s = self._clock.now
        self._meter.in_service.add(self._since_s, now_s, self._working)
        self._meter.units_in_service.add(self._since_s, now_s, self._working)
        self.present.add(self._since_s, now_s, self._working)
        self._since_s = now_s
