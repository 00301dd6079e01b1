# SPDX-License-Identifier: Apache-2.0
"""Admission: how many requests, and how many of their bytes, the server holds; and the door it closes to drain.

Memory is shared by dynamic thresholds (Choudhury, Hahne: Dynamic queue length thresholds, IEEE/ACM Trans. Networking, 1998): a
client may hold as many bytes as are still free. So one greedy client gets half of the limit and never all of it, two get a
third each, and who holds little is let in until the very end. A request's bytes are held until its answer has left the server:
a client that does not read its answers uses up its own share.
"""

from __future__ import annotations

import threading

from hypersonic.server.errors import BudgetError, CancelledError, ClientShareError, ShuttingDownError


class Admission:
    """Front ends' threads enter and leave; the main thread closes the door and waits. limit_bytes: 0 = no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.requests = 0
        self.size_bytes = 0
        self.closed = False
        #: requests refused for their bytes, since start
        self.refused = 0
        #: those that came after the door was closed
        self.turned_away = 0
        self._clients: dict[str, int] = {}
        self._changed = threading.Condition(threading.Lock())

    def enter(self, size_bytes: int, client: str = "") -> None:
        """Raises ShuttingDownError once closed, BudgetError when these bytes would exceed the limit or the client's share.

        A request alone in the server is let in whatever its size: it is in memory already.
        """
        with self._changed:
            if self.closed:
                self.turned_away += 1
                raise ShuttingDownError
            if self.requests:
                self._check(size_bytes, client)
            self.requests += 1
            self._add(size_bytes, client)

    def _check(self, size_bytes: int, client: str) -> None:
        held = self._clients.get(client, 0)
        if self.limit_bytes and held + size_bytes > self.limit_bytes - self.size_bytes:
            self.refused += 1
            kind = BudgetError if size_bytes > self.limit_bytes - self.size_bytes else ClientShareError
            raise kind(
                f"the requests in flight hold {self.size_bytes} bytes, {held} of them this client's; {size_bytes} more "
                f"exceed its share of the limit of {self.limit_bytes}: send again later or to another server"
            )

    def _add(self, size_bytes: int, client: str) -> None:
        self.size_bytes += size_bytes
        self._clients[client] = self._clients.get(client, 0) + size_bytes

    def take(self, size_bytes: int, client: str = "") -> None:
        """A request that was let in is about to hold more: decompressed, parsed. Raises BudgetError before it does."""
        with self._changed:
            self._check(size_bytes, client)
            self._add(size_bytes, client)

    def grow(self, size_bytes: int, client: str = "") -> None:
        """A request that was let in holds more than it came with: its answer is larger."""
        with self._changed:
            self._add(size_bytes, client)

    def shrink(self, size_bytes: int, client: str = "") -> None:
        """What take() or grow() added is free again."""
        with self._changed:
            self._subtract(size_bytes, client)

    def _subtract(self, size_bytes: int, client: str) -> None:
        self.size_bytes -= size_bytes
        held = self._clients.get(client, 0) - size_bytes
        if held > 0:
            self._clients[client] = held
        else:
            self._clients.pop(client, None)

    def leave(self, size_bytes: int, client: str = "") -> None:
        """The request's bytes are free again, whatever became of it."""
        with self._changed:
            self.requests -= 1
            self._subtract(size_bytes, client)
            if self.closed and not self.requests:
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more."""
        with self._changed:
            self.closed = True

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether everybody left in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.requests, timeout_s)


class Held:
    """The bytes that one request holds, from its admission until leave(). Any thread: a call may end while it is worked on."""

    __slots__ = ("_admission", "_client", "_left", "_lock", "_size_bytes")

    def __init__(self, admission: Admission, client: str, size_bytes: int) -> None:
        """Raises what Admission.enter raises."""
        admission.enter(size_bytes, client)
        self._admission = admission
        self._client = client
        self._size_bytes = size_bytes
        self._left = False
        self._lock = threading.Lock()

    @property
    def client(self) -> str:
        """Whose they are."""
        return self._client

    def take(self, size_bytes: int) -> None:
        """Before more memory is taken. Raises BudgetError, CancelledError once it has left."""
        with self._lock:
            if self._left:
                raise CancelledError
            self._admission.take(size_bytes, self._client)
            self._size_bytes += size_bytes

    def add(self, size_bytes: int) -> None:
        """Memory that is taken already: an answer beside its request."""
        with self._lock:
            if not self._left:  # else nobody would give it back
                self._admission.grow(size_bytes, self._client)
                self._size_bytes += size_bytes

    def hold(self, size_bytes: int) -> None:
        """It holds that many bytes now, if those are more: an answer in place of its request."""
        if size_bytes > self._size_bytes:
            self.add(size_bytes - self._size_bytes)

    def leave(self) -> None:
        """Everything is free again."""
        with self._lock:
            if self._left:
                return
            self._left = True
            self._admission.leave(self._size_bytes, self._client)
