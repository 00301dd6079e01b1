# SPDX-License-Identifier: Apache-2.0
"""LostRun: the requests of a run during which the instance was lost. Any one of them may be the cause.

Each of them runs once more, alone. This identifies a request that takes down instances, without losing another request with
it. Each such request costs an instance, and possibly the seconds that it takes to initialize the model again, while every
request waits. The number is therefore limited: after MOST_LOSSES instances, the remaining requests of that run fail too.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypersonic.server.core.inference.pending import LostRun, PendingRequest

#: the number of further instances that the requests of one lost run may take down, one by one
MOST_LOSSES = 4


def mark_lost(lost: Iterable[PendingRequest]) -> list[PendingRequest]:
    """Record that these requests were in a lost run, which any of them may have caused.

    Returns the requests that must fail because others of their run have taken down too many instances, one by one.
    """
    lost = list(lost)
    before = {id(each): each for pending in lost if (each := pending.queued.lost_run) is not None}
    for each in before.values():
        each.losses += 1
    fresh = [pending for pending in lost if pending.queued.lost_run is None]
    group = LostRun(fresh)
    for pending in fresh:
        pending.queued.lost_run = group
    return [pending for each in before.values() if each.losses >= MOST_LOSSES for pending in each.members]
