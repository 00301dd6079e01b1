# SPDX-License-Identifier: Apache-2.0
"""FairQueue: the shares that wait for a run, in the order in which they run.

They are ordered by priority level; within a level, requests past a DELAY timeout are last; within these, clients take turns by
bytes, by start-time fair queueing (Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996). A request's tag is the larger of
the queue's virtual time (the tag served last) and the tag at which its client's last request ends; its length is its size in
bytes, at least LEAST_BYTES. So the requests of one client stay in order, a single client is never held back, and one client's
kilobyte runs next even while another client sends a hundred megabytes. Requests that leave without a run, because they are
cancelled or their time is up, do not count: those behind them get the tags that they would have without them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.scheduling.rule import QueuedRows

_Place = tuple[tuple[int, int, int, int], int]
#: the most clients remembered; above it, clients whose last tag the virtual time has passed are forgotten
_MOST_CLIENTS = 4096
#: what a request counts at least: a run costs time however few bytes it has
LEAST_BYTES = 4096


def _place(share: Share) -> _Place:
    return share.pending.queued.rank, share.first_row


def _length(pending: PendingRequest) -> int:
    return max(LEAST_BYTES, pending.queued.size_bytes)


class FairQueue:
    """The queue, used under its batcher's lock.

    Args:
        fair: False keeps the order of arrival within a level, whichever client sent the request.
    """

    def __init__(self, *, fair: bool = True) -> None:
        self._fair = fair
        self._shares: list[Share] = []
        self._virtual = 0
        #: by client: the tag at which its last request ends, and the last one of those that have run
        self._ends: dict[str, int] = {}
        self._served: dict[str, int] = {}
        #: the clients whose waiting requests have to get new tags, because others of them have left
        self._outdated: set[str] = set()
        self._serial = 0
        #: the earliest timeout of a queued request in monotonic ns, 0 = none
        self.expires_ns = 0

    def __len__(self) -> int:
        return len(self._shares)

    def __iter__(self) -> Iterator[Share]:
        self._update_tags()
        return iter(self._shares)

    def __getitem__(self, index: int) -> Share:
        self._update_tags()
        return self._shares[index]

    def waiting(self) -> Iterator[QueuedRows]:
        """Iterate over the shares as the batching rule sees them, in order."""
        for share in self:
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
            self._served.clear()
            self._outdated.clear()
        pending.queued.arrived = self._virtual
        start = max(self._virtual, self._ends.get(pending.client, 0))
        self._ends[pending.client] = start + _length(pending)
        if len(self._ends) > _MOST_CLIENTS:
            self._ends, self._served = (
                {client: end for client, end in ends.items() if end > self._virtual} for ends in (self._ends, self._served)
            )
        return start

    def _update_tags(self) -> None:
        """Give the outdated clients' requests the tags that they have without those that left, and put them in order."""
        if not self._outdated:
            return
        ends = {client: self._served.get(client, 0) for client in self._outdated}
        self._outdated.clear()
        requests = {share.pending for share in self._shares if share.pending.client in ends}
        new = [pending for pending in requests if pending.queued.arrived >= 0]
        for pending in sorted(new, key=lambda pending: pending.queued.rank[-1]):
            level, delayed, _, serial = pending.queued.rank
            tag = max(pending.queued.arrived, ends[pending.client])
            ends[pending.client] = tag + _length(pending)
            pending.queued.rank = level, delayed, tag, serial
        self._ends |= ends
        self._shares.sort(key=_place)

    def take(self, count: int) -> tuple[Share, ...]:
        """Remove and return the first `count` shares."""
        self._update_tags()
        taken = tuple(self._shares[:count])
        del self._shares[:count]
        for share in taken:
            pending = share.pending
            pending.queued.waiting -= 1
            if self._fair and pending.queued.arrived >= 0:
                pending.queued.arrived = -1
                end = pending.queued.rank[2] + _length(pending)
                self._served[pending.client] = max(end, self._served.get(pending.client, 0))
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
        self._drop(pending)
        if self._fair and pending.queued.arrived >= 0:
            self._outdated.add(pending.client)
        return True

    def _drop(self, pending: PendingRequest) -> list[Share]:
        """Remove and return the request's shares, which are neighbours."""
        first = bisect_left(self._shares, (pending.queued.rank, 0), key=_place)
        last = first + pending.queued.waiting
        dropped = self._shares[first:last]
        del self._shares[first:last]
        pending.queued.waiting = 0
        return dropped

    def expired(self, now_ns: int) -> list[PendingRequest]:
        """Return the requests whose timeout has expired; the caller must remove or delay them."""
        if not 0 < self.expires_ns <= now_ns:
            return []
        left = [share.pending for share in self._shares if share.pending.queued.expires_ns > 0]
        self.expires_ns = min((p.queued.expires_ns for p in left if p.queued.expires_ns > now_ns), default=0)
        return list(dict.fromkeys(p for p in left if p.queued.expires_ns <= now_ns))

    def delay(self, pending: PendingRequest) -> None:
        """Move the request behind all others of its level, including those that arrive later."""
        shares = self._drop(pending)
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
