# SPDX-License-Identifier: Apache-2.0
"""Whose turn is next, so that each flow gets service in proportion to its share. It has no clock and no threads.

::

    FairOrder     the turns that wait, and which is next
    FairPlaces    a few places in which turns are served at the same time, given by a FairOrder

Start-time fair queueing (Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996). A turn's tag is the larger of the virtual
time, which is the smallest tag at the last service, and the tag at which its flow's last turn ends; a turn's length is its
bytes divided by the share. The smallest tag is next; of equal ones, the earliest. While two flows both have turns waiting, the
bytes that each gets, divided by its share, thus differ by at most one turn of each. A flow that was idle has no credit. No turn
waits while the resource is idle.

A caller may prefer a flow, because a change of flows costs something (a swap of weights): its turn is then next although
another one has a smaller tag, by up to `slack`.

With places for several turns at the same time, flows that compete have one each, and a flow without competition may have all. A
model has few slots: if all of them were being served, none of its turns would wait, and other models would get the places
that become free, whatever the shares. For the same reason a place stays free while the next turn of a flow that is being served
would come before those that wait. A flow competes until the virtual time has reached the end of its last turn.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Flow:
    """A competitor: a model version.

    Attributes:
        share: its part of the shared resource, relative to the others' shares, above 0.
    """

    name: str
    share: float = 1.0


@dataclass(eq=False, slots=True)
class Turn:
    """A flow's request to be served once.

    Attributes:
        size_bytes: how much.
        tag: its place in the order, set by FairOrder.
    """

    flow: Flow
    size_bytes: int
    tag: float = 0.0


class FairOrder:
    """The turns that wait."""

    def __init__(self) -> None:
        self._virtual = 0.0
        #: flow -> the tag at which its last turn ends, for flows that are not behind the virtual time
        self._ends: dict[Flow, float] = {}
        self._waiting: list[Turn] = []

    def __len__(self) -> int:
        """Return the number of turns that wait."""
        return len(self._waiting)

    def add(self, turn: Turn) -> None:
        """Add a turn that waits."""
        turn.tag = self.next_tag(turn.flow)
        self._ends[turn.flow] = turn.tag + turn.size_bytes / turn.flow.share
        self._waiting.append(turn)

    def next_tag(self, flow: Flow) -> float:
        """Return the tag that the flow's next turn would have if it were added now."""
        return max(self._virtual, self._ends.get(flow, 0.0))

    def firsts(self) -> dict[Flow, Turn]:
        """Return the first turn of each flow that waits."""
        found: dict[Flow, Turn] = {}
        for turn in self._waiting:
            found.setdefault(turn.flow, turn)
        return found

    def ahead(self) -> set[Flow]:
        """Return the flows whose last turn ends after the virtual time."""
        return {flow for flow, end in self._ends.items() if end > self._virtual}

    def others(self, flow: Flow | None) -> bool:
        """Return whether a turn of another flow waits."""
        return any(turn.flow is not flow for turn in self._waiting)

    def __bool__(self) -> bool:
        """Return whether a turn waits."""
        return bool(self._waiting)

    def next(self, preferred: Flow | None = None, slack: float = 0.0) -> Turn | None:
        """Return the next turn, which keeps waiting until take().

        Args:
            preferred: a flow that may be ahead of its place by slack bytes of a flow with share 1.
        """
        if not self._waiting:
            return None
        first = min(self._waiting, key=lambda turn: turn.tag)
        if preferred is None or first.flow is preferred:
            return first
        own = next((turn for turn in self._waiting if turn.flow is preferred), None)
        return own if own is not None and own.tag <= first.tag + slack else first

    def take(self, turn: Turn) -> None:
        """Serve a turn."""
        self._virtual = max(self._virtual, min(each.tag for each in self._waiting))
        self._waiting.remove(turn)
        if len(self._ends) > 1 or not self._waiting:
            self._ends = {flow: end for flow, end in self._ends.items() if end > self._virtual}

    def remove(self, turn: Turn) -> None:
        """Remove a waiting turn without serving it. Its flow has already been charged for it."""
        self._waiting.remove(turn)


class FairPlaces:
    """Turns that are served at the same time, and those that wait for a place.

    A turn that finds all places free is not charged to its flow: no other flow had to wait.

    Args:
        places: how many turns are served at the same time.
    """

    def __init__(self, places: int) -> None:
        self._order = FairOrder()
        self._places = places
        self._served: list[Flow] = []

    def enter(self, turn: Turn) -> list[Turn]:
        """Add a turn; return the turns that have a place now, possibly this one."""
        if not self._served:
            self._served.append(turn.flow)
            return [turn]
        self._order.add(turn)
        return self._give()

    def leave(self, flow: Flow) -> list[Turn]:
        """End a turn of the flow that was served; return the turns that have a place now."""
        self._served.remove(flow)
        return self._give()

    def _give(self) -> list[Turn]:
        """Give free places to the turns that are due."""
        given: list[Turn] = []
        while len(self._served) < self._places and (due := self._due()) is not None:
            self._order.take(due)
            self._served.append(due.flow)
            given.append(due)
        return given

    def _due(self) -> Turn | None:
        """Return the turn that a free place is for."""
        firsts = self._order.firsts()
        without = [turn for flow, turn in firsts.items() if flow not in self._served]
        due = min(without or firsts.values(), key=lambda turn: turn.tag, default=None)
        if due is None or (not without and self._order.ahead() | {*self._served} != {due.flow}):
            return None
        others = [flow for flow in self._served if flow is not due.flow]
        before = [firsts[flow].tag if flow in firsts else self._order.next_tag(flow) for flow in others]
        return due if due.tag <= min(before, default=due.tag) else None
