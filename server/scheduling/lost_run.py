# SPDX-License-Identifier: Apache-2.0
"""LostRun: the requests of a run that its instance did not survive. Any one of them may be what ended it.

Each of them runs again once, alone: so one that ends instances is found, and takes no other request along. Each such request
costs an instance, and perhaps the seconds in which its model is initialized again, for which everybody waits. So not every
request of a run may do that: after MOST_LOSSES the others of that run fail, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypersonic.server.inference.pending import LostRun, PendingRequest

#: instances that the requests of one lost run may end one by one, after the run itself ended one
MOST_LOSSES = 4


def mark_lost(lost: Iterable[PendingRequest]) -> list[PendingRequest]:
    """These were in a run that was lost: any of them may have ended its instance. Returns those that are to fail because others
    of their run, one by one, have ended too many instances."""
    lost = list(lost)
    before = {id(each): each for pending in lost if (each := pending.lost_run) is not None}
    for each in before.values():
        each.losses += 1
    fresh = [pending for pending in lost if pending.lost_run is None]
    group = LostRun(fresh)
    for pending in fresh:
        pending.lost_run = group
    return [pending for each in before.values() if each.losses >= MOST_LOSSES for pending in each.members]
