# SPDX-License-Identifier: Apache-2.0
"""Admission: how many requests, and how many of their bytes, the server holds; and the door it closes to drain.

Memory is shared by dynamic thresholds (Choudhury, Hahne: Dynamic queue length thresholds, IEEE/ACM Trans. Networking, 1998): a
client may hold as many bytes as are still free. So one greedy client gets half of the limit and never all of it, two get a
third each, and who holds little is let in until the very end. A request's bytes are held until its answer has left the server:
a client that does not read its answers uses up its own share.
"""

from __future__ import annotations

import threading

from hypersonic.server.errors import BudgetError, ShuttingDownError


class Admission:
    """Front ends' threads enter and leave; the main thread closes the door and waits. limit_bytes: 0 = no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.requests = 0
        self.size_bytes = 0
        self.closed = False
        #: requests refused for their bytes, since start
        self.refused = 0
        self._clients: dict[str, int] = {}
        self._changed = threading.Condition(threading.Lock())

    def enter(self, size_bytes: int, client: str = "") -> None:
        """Raises ShuttingDownError once closed, BudgetError when these bytes would exceed the limit or the client's share.

        A request alone in the server is let in whatever its size: it is in memory already.
        """
        with self._changed:
            if self.closed:
                raise ShuttingDownError
            if self.requests:
                self._check(size_bytes, client)
            self.requests += 1
            self._add(size_bytes, client)

    def _check(self, size_bytes: int, client: str) -> None:
        held = self._clients.get(client, 0)
        if self.limit_bytes and held + size_bytes > self.limit_bytes - self.size_bytes:
            self.refused += 1
            raise BudgetError(
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

    def leave(self, size_bytes: int, client: str = "") -> None:
        """The request's bytes are free again, whatever became of it."""
        with self._changed:
            self.requests -= 1
            self.size_bytes -= size_bytes
            held = self._clients.get(client, 0) - size_bytes
            if held > 0:
                self._clients[client] = held
            else:
                self._clients.pop(client, None)
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
