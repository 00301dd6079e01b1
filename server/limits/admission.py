# SPDX-License-Identifier: Apache-2.0
"""Admission: limits the number of requests and of their bytes that the server holds, and refuses new ones at shutdown.

Memory is shared by address, then by connection (see budget.py), so that one client never gets all of it. Bytes count when they
have arrived, not when they are only announced, and until the answer has been sent: a client that does not read its answers uses
up its own share.
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

#: size of a typical request, which decides whether the server has room for new clients: this many bytes, or 1/_FRESH_PART of
#: the limit if that is smaller
_FRESH_BYTES, _FRESH_PART = 1 << 20, 1024
#: the most requests that are held at one time. A request that waits for a model holds no thread, but about 20 kB of memory in
#: addition to its own bytes
MOST_REQUESTS = 65_536


class Admission:
    """Counts requests and their bytes. The front ends' threads call enter() and leave(), the main thread close()."""

    def __init__(self, limit_bytes: int, peers: Peers | None = None, limit_requests: int = MOST_REQUESTS) -> None:
        """Create an Admission.

        Args:
            limit_bytes, limit_requests: of all requests that are held at one time, 0 = no limit.
        """
        self.budget = Budget(limit_bytes, peers, max(1, min(_FRESH_BYTES, limit_bytes // _FRESH_PART)))
        self.places = Budget(limit_requests, peers)
        self.limit_bytes = limit_bytes
        self.closed = False
        self._closed_s = math.inf
        #: requests that were refused because they arrived after close()
        self.refused_closed = 0
        self._lock = threading.Lock()
        #: under this lock: the last request has left after close()
        self._empty = threading.Condition(self._lock)

    @property
    def requests(self) -> int:
        """The number of requests that are held now."""
        return self.places.used

    @property
    def size_bytes(self) -> int:
        """The bytes that are held now."""
        return self.budget.used

    @property
    def refused(self) -> int:
        """The number of requests that were refused for their bytes or their number, since start."""
        return self.budget.refusals + self.places.refusals

    def enter(self, size_bytes: int, client: str = "", arrived_s: float = math.inf) -> None:
        """Admit a request. A request that is alone in the server is admitted regardless of its size: it is in memory already.

        Args:
            client: its connection.
            arrived_s: when it began to arrive, of time.monotonic(); inf = unknown.

        Raises:
            ShuttingDownError: (UNAVAILABLE, 503) for a request that began to arrive after close().
            BudgetError: (RESOURCE_EXHAUSTED, 503) if these bytes, or one more request, would exceed the limit or the client's
                share.
        """
        with self._lock:
            if self.closed and arrived_s >= self._closed_s:
                self.refused_closed += 1
                raise ShuttingDownError
            if self.places.used:
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
            f"{held.format(budget.used)}, {of_address} of them for this client's address and {of_connection} for this "
            f"connection; {amount} more would exceed its share of the limit of {budget.limit}: send the request later or to "
            "another server"
        )

    def check(self, size_bytes: int, client: str = "") -> None:
        """Raise BudgetError if announced bytes would be refused if they arrived now. Counts nothing."""
        with self._lock:
            self._check(size_bytes, client)

    def take(self, size_bytes: int, client: str = "") -> None:
        """Count more bytes for an admitted request, before it is read, decompressed or parsed. Raises BudgetError."""
        with self._lock:
            self._check(size_bytes, client)
            self.budget.take(size_bytes, client)

    def grow(self, size_bytes: int, client: str = "") -> None:
        """Count more bytes for an admitted request whose answer is larger than itself. Raises BudgetError.

        The answer to a request that is alone in the server may have any size.
        """
        with self._lock:
            if self.requests > 1:
                self._check(size_bytes, client)
            self.budget.take(size_bytes, client)

    def shrink(self, size_bytes: int, client: str = "") -> None:
        """Release bytes that take() or grow() counted."""
        with self._lock:
            self.budget.release(size_bytes, client)

    def leave(self, size_bytes: int, client: str = "") -> None:
        """Release a request and its bytes."""
        with self._lock:
            self.places.release(1, client)
            self.budget.release(size_bytes, client)
            if self.closed and not self.requests:
                self._empty.notify_all()

    def close(self) -> None:
        """Refuse requests from now on."""
        with self._lock:
            if not self.closed:
                self.closed, self._closed_s = True, time.monotonic()

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until no request is held. Returns whether that happened in time."""
        with self._lock:
            return self._empty.wait_for(lambda: not self.requests, timeout_s)


class Held:
    """The bytes that one request holds, from its admission until leave().

    Any thread may use it, because a call may end while it is worked on.
    """

    __slots__ = ("_admission", "_client", "_left", "_lock", "_size_bytes")

    def __init__(self, admission: Admission, client: str, size_bytes: int, arrived_s: float = math.inf) -> None:
        """Admit a request of `size_bytes`. Raises as Admission.enter() does."""
        admission.enter(size_bytes, client, arrived_s)
        self._admission = admission
        self._client = client
        self._size_bytes = size_bytes
        self._left = False
        self._lock = threading.Lock()

    @property
    def client(self) -> str:
        """The connection that sent the request."""
        return self._client

    def check(self, size_bytes: int) -> None:
        """Raise BudgetError if this many more bytes would be refused now. Counts nothing."""
        self._admission.check(size_bytes, self._client)

    def take(self, size_bytes: int) -> None:
        """Count more bytes, before the memory is allocated. Raises BudgetError, and CancelledError after leave()."""
        with self._lock:
            if self._left:
                raise CancelledError
            self._admission.take(size_bytes, self._client)
            self._size_bytes += size_bytes

    def add(self, size_bytes: int) -> None:
        """Count memory that is already allocated, of an answer in addition to its request.

        Raises BudgetError, and the answer then has to be dropped. Does nothing after leave().
        """
        with self._lock:
            if not self._left:  # otherwise it would never be released
                self._admission.grow(size_bytes, self._client)
                self._size_bytes += size_bytes

    def hold(self, size_bytes: int) -> None:
        """Raise the count to `size_bytes`, for an answer that replaces its request. Raises BudgetError."""
        if size_bytes > self._size_bytes:
            self.add(size_bytes - self._size_bytes)

    def leave(self) -> None:
        """Release the request and all its bytes. Further calls do nothing."""
        with self._lock:
            if self._left:
                return
            self._left = True
            self._admission.leave(self._size_bytes, self._client)
