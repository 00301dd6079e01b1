# SPDX-License-Identifier: Apache-2.0
"""FairQueue: the shares that wait for a run, in the order in which they run.

They are ordered by priority level; within a level, requests past a DELAY timeout are last; within these, clients take turns by
bytes, by start-time fair queueing (Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996). A request's tag is the larger of
the queue's virtual time (the tag served last) and the tag at which its client's last request ends; its length is its size in
bytes. So the requests of one client stay in order, a single client is never held back, and one client's kilobyte runs next even
while another client sends a hundred megabytes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator

from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.scheduling.rule import QueuedRows

_Place = tuple[tuple[int, int, int, int], int]
#: the most clients remembered; above it, clients whose last tag the virtual time has passed are forgotten
_MOST_CLIENTS = 4096


def _place(share: Share) -> _Place:
    return share.pending.queued.rank, share.first_row


class FairQueue:
    """The queue, used under its batcher's lock.

    Args:
        fair: False keeps the order of arrival within a level, whichever client sent the request.
    """

    def __init__(self, *, fair: bool = True) -> None:
        self._fair = fair
        self._shares: list[Share] = []
        self._virtual = 0
        self._ends: dict[str, int] = {}
        self._serial = 0
        #: the earliest timeout of a queued request in monotonic ns, 0 = none
        self.expires_ns = 0

    def __len__(self) -> int:
        return len(self._shares)

    def __iter__(self) -> Iterator[Share]:
        return iter(self._shares)

    def __getitem__(self, index: int) -> Share:
        return self._shares[index]

    def waiting(self) -> Iterator[QueuedRows]:
        """Iterate over the shares as the batching rule sees them, in order."""
        for share in self._shares:
            pending = share.pending
            yield QueuedRows(share.rows, pending.queued.enqueued_ns, pending.request.group, pending.queued.lost_run is not None)

    def add(self, pending: PendingRequest) -> None:
        """Add a new request, whole. Its level and expires_ns are set."""
        self._serial += 1
        pending.queued.rank = (pending.queued.level, 0, self._tag(pending) if self._fair else 0, self._serial)
        self.insert(Share(pending, 0, pending.request.rows))

    def insert(self, share: Share) -> None:
        """Insert rows of a request that has a place in the order already."""
        pending = share.pending
        pending.queued.waiting += 1
        if pending.queued.expires_ns and (not self.expires_ns or pending.queued.expires_ns < self.expires_ns):
            self.expires_ns = pending.queued.expires_ns
        if not self._shares or _place(self._shares[-1]) < _place(share):
            self._shares.append(share)
        else:
            insort(self._shares, share, key=_place)

    def _tag(self, pending: PendingRequest) -> int:
        if not self._shares:
            self._ends.clear()
            self._virtual = 0
        start = max(self._virtual, self._ends.get(pending.client, 0))
        self._ends[pending.client] = start + pending.queued.size_bytes
        if len(self._ends) > _MOST_CLIENTS:
            self._ends = {client: end for client, end in self._ends.items() if end > self._virtual}
        return start

    def take(self, count: int) -> tuple[Share, ...]:
        """Remove and return the first `count` shares."""
        taken = tuple(self._shares[:count])
        del self._shares[:count]
        for share in taken:
            share.pending.queued.waiting -= 1
        if taken:
            self._virtual = max(self._virtual, taken[-1].pending.queued.rank[2])
        return taken

    def cut(self, rows: int) -> Share:
        """Remove and return the first `rows` rows of the first share; the rest stays at the head."""
        (share,) = self.take(1)
        self.insert(Share(share.pending, share.first_row + rows, share.rows - rows))
        return Share(share.pending, share.first_row, rows)

    def remove(self, pending: PendingRequest) -> bool:
        """Remove the request's waiting rows; return whether there were any."""
        if not pending.queued.waiting:
            return False
        self._shares = [share for share in self._shares if share.pending is not pending]
        pending.queued.waiting = 0
        return True

    def expired(self, now_ns: int) -> list[PendingRequest]:
        """Return the requests whose timeout has expired; the caller must remove or delay them."""
        if not 0 < self.expires_ns <= now_ns:
            return []
        left = [share.pending for share in self._shares if share.pending.queued.expires_ns > 0]
        self.expires_ns = min((p.queued.expires_ns for p in left if p.queued.expires_ns > now_ns), default=0)
        return list(dict.fromkeys(p for p in left if p.queued.expires_ns <= now_ns))

    def delay(self, pending: PendingRequest) -> None:
        """Move the request behind all others of its level, including those that arrive later."""
        shares = [share for share in self._shares if share.pending is pending]
        self.remove(pending)
        pending.queued.rank = (pending.queued.rank[0], 1, *pending.queued.rank[2:])
        for share in shares:
            self.insert(share)

    def clear(self) -> Iterable[PendingRequest]:
        """Empty the queue and return the requests that waited."""
        waiting = list(dict.fromkeys(share.pending for share in self._shares))
        self._shares = []
        for pending in waiting:
            pending.queued.waiting = 0
        return waiting
