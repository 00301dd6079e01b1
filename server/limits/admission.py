# SPDX-License-Identifier: Apache-2.0
"""Admission: how many requests, and how many of their bytes, the server holds; and the door it closes to drain.

Memory is shared by address, then by connection (see budget.py): one greedy client never gets all of it. Bytes count when they
are here, never when they are only announced, and are held until the answer has left the server: a client that does not read its
answers uses up its own share.
"""

from __future__ import annotations

import math
import threading
import time
from typing import NoReturn

from hypersonic.server.errors import (
    AddressShareError,
    BudgetError,
    CancelledError,
    ClientShareError,
    ShuttingDownError,
)
from hypersonic.server.limits.budget import Budget
from hypersonic.server.limits.peers import Peers

#: what a request of a new client takes, for the question whether it would be refused: so much, or this part of the limit
_FRESH_BYTES, _FRESH_PART = 1 << 20, 1024
#: requests held at a time: one that waits for a model holds no thread, but some 20 kB of memory whatever its own bytes are
MOST_REQUESTS = 65_536


class Admission:
    """Front ends' threads enter and leave; the main thread closes the door and waits.

    limit_bytes: 0 = no limit. limit_requests: held at a time, 0 = no limit.
    """

    def __init__(self, limit_bytes: int, peers: Peers | None = None, limit_requests: int = MOST_REQUESTS) -> None:
        self.budget = Budget(limit_bytes, peers, max(1, min(_FRESH_BYTES, limit_bytes // _FRESH_PART)))
        self.places = Budget(limit_requests, peers)
        self.limit_bytes = limit_bytes
        self.closed = False
        self._closed_s = math.inf
        #: those that came after the door was closed
        self.refused_closed = 0
        self._changed = threading.Condition(threading.Lock())

    @property
    def requests(self) -> int:
        """Held now."""
        return self.places.used

    @property
    def size_bytes(self) -> int:
        """Held now."""
        return self.budget.used

    @property
    def refused(self) -> int:
        """Requests refused for their bytes or their number, since start."""
        return self.budget.refusals + self.places.refusals

    def enter(self, size_bytes: int, client: str = "", arrived_s: float = math.inf) -> None:
        """Raises ShuttingDownError once closed, unless the request began to arrive before that (arrived_s, of
        time.monotonic()); BudgetError when these bytes, or one more request, would exceed the limit or
        the client's share.

        A request alone in the server is let in whatever its size: it is in memory already.
        """
        with self._changed:
            if self.closed and arrived_s >= self._closed_s:
                self.refused_closed += 1
                raise ShuttingDownError
            if self.requests:
                if not self.places.fits(1, client):
                    self._refuse(self.places, 1, client, "the server holds {} requests")
                self._check(size_bytes, client)
            self.places.take(1, client)
            self.budget.take(size_bytes, client)

    def _check(self, size_bytes: int, client: str) -> None:
        if not self.budget.fits(size_bytes, client):
            self._refuse(self.budget, size_bytes, client, "the requests in flight hold {} bytes")

    def _refuse(self, budget: Budget, amount: int, client: str, held: str) -> NoReturn:
        by_address, _ = budget.room(client)
        budget.refused(client)
        of_address, of_connection = budget.held(client)
        kind = ClientShareError if amount <= by_address else AddressShareError
        raise (BudgetError if amount > budget.limit - budget.used else kind)(
            f"{held.format(budget.used)}, {of_address} of them this client's address and {of_connection} this connection; "
            f"{amount} more exceed its share of the limit of {budget.limit}: send again later or to another server"
        )

    def check(self, size_bytes: int, client: str = "") -> None:
        """Bytes that are announced: nothing is taken. Raises BudgetError when they would be refused if they were here now."""
        with self._changed:
            self._check(size_bytes, client)

    def take(self, size_bytes: int, client: str = "") -> None:
        """A request that was let in is about to hold more: read, decompressed, parsed. Raises BudgetError before it does."""
        with self._changed:
            self._check(size_bytes, client)
            self.budget.take(size_bytes, client)

    def grow(self, size_bytes: int, client: str = "") -> None:
        """A request that was let in holds more than it came with: its answer is larger. Raises BudgetError.

        The answer to a request that is alone in the server may have any size.
        """
        with self._changed:
            if self.requests > 1:
                self._check(size_bytes, client)
            self.budget.take(size_bytes, client)

    def shrink(self, size_bytes: int, client: str = "") -> None:
        """Free what take() or grow() added."""
        with self._changed:
            self.budget.release(size_bytes, client)

    def leave(self, size_bytes: int, client: str = "") -> None:
        """The request's bytes are free again, whatever became of it."""
        with self._changed:
            self.places.release(1, client)
            self.budget.release(size_bytes, client)
            if self.closed and not self.requests:
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more."""
        with self._changed:
            if not self.closed:
                self.closed, self._closed_s = True, time.monotonic()

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether everybody left in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.requests, timeout_s)


class Held:
    """The bytes that one request holds, from its admission until leave(). Any thread: a call may end while it is worked on."""

    __slots__ = ("_admission", "_client", "_left", "_lock", "_size_bytes")

    def __init__(self, admission: Admission, client: str, size_bytes: int, arrived_s: float = math.inf) -> None:
        """Raises what Admission.enter raises."""
        admission.enter(size_bytes, client, arrived_s)
        self._admission = admission
        self._client = client
        self._size_bytes = size_bytes
        self._left = False
        self._lock = threading.Lock()

    @property
    def client(self) -> str:
        """Whose they are."""
        return self._client

    def check(self, size_bytes: int) -> None:
        """Raises BudgetError when so many more bytes would be refused now; takes none."""
        self._admission.check(size_bytes, self._client)

    def take(self, size_bytes: int) -> None:
        """Before more memory is taken. Raises BudgetError, CancelledError once it has left."""
        with self._lock:
            if self._left:
                raise CancelledError
            self._admission.take(size_bytes, self._client)
            self._size_bytes += size_bytes

    def add(self, size_bytes: int) -> None:
        """Memory that is taken already: an answer beside its request. Raises BudgetError: the answer has to go."""
        with self._lock:
            if not self._left:  # else nobody would give it back
                self._admission.grow(size_bytes, self._client)
                self._size_bytes += size_bytes

    def hold(self, size_bytes: int) -> None:
        """It holds that many bytes now, if those are more: an answer in place of its request. Raises BudgetError."""
        if size_bytes > self._size_bytes:
            self.add(size_bytes - self._size_bytes)

    def leave(self) -> None:
        """Everything is free again."""
        with self._lock:
            if self._left:
                return
            self._left = True
            self._admission.leave(self._size_bytes, self._client)
