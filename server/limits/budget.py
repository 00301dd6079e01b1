# SPDX-License-Identifier: Apache-2.0
"""Budget: how much of something that is limited (bytes, places, streams) each client may hold.

Shared by address first (see peers.py), then by connection inside the address, by dynamic thresholds (Choudhury, Hahne: Dynamic
queue length thresholds, IEEE/ACM Trans. Networking, 1998): whoever holds something may take as much as leaves at least as much
free as it holds then. An address that is alone may take everything but an eighth; the same holds for a connection that is alone
in its address.

What that guarantees: whatever k other addresses hold, and in whichever order they took it, at least limit / 2^(k+2) are free,
and an address that holds nothing gets at least 7/16 of what is free in one piece (of things that are counted one by one: the
last one).
"""

from __future__ import annotations

import time

from hypersonic.server.limits.peers import Peers

#: 1 / so much is kept for a second address
_KEPT = 8
#: stands for "no limit"
_ENDLESS = 1 << 62


class Budget:
    """Its owner holds a lock. limit: 0 = none. client: a connection."""

    def __init__(self, limit: int, peers: Peers | None = None, fresh: int = 1) -> None:
        """fresh: what a request of reasonable size takes; while a new address could not have it, full_since is set."""
        self.limit = limit
        self.used = 0
        #: requests for more that were refused
        self.refusals = 0
        #: the address that was refused last
        self.last_refused = ""
        #: time.monotonic() since when an address that holds nothing would be refused, None = it would not
        self.full_since: float | None = None
        self.address_of = (peers or Peers()).address_of
        self._fresh = fresh
        self._addresses: dict[str, int] = {}
        self._connections: dict[str, int] = {}

    def held(self, client: str) -> tuple[int, int]:
        """(by its address, by the connection itself)."""
        return self._addresses.get(self.address_of(client), 0), self._connections.get(client, 0)

    def room(self, client: str) -> tuple[int, int]:
        """How much more (its address, this connection) may take."""
        if not self.limit:
            return _ENDLESS, _ENDLESS
        by_address, by_connection = self.held(client)
        address = _room(by_address, self.used, self.limit - self.used, self.limit)
        return address, _room(by_connection, by_address, address, by_address + address)

    def fits(self, amount: int, client: str) -> bool:
        """Whether this connection may take so much: room() >= amount, quickly while most is free."""
        return 4 * (self.used + amount) <= self.limit or amount <= self.room(client)[1]

    @property
    def fresh_room(self) -> int:
        """How much a connection of an address that holds nothing may take."""
        if not self.limit:
            return _ENDLESS
        address = _room(0, self.used, self.limit - self.used, self.limit)
        return _room(0, 0, address, address)

    def refused(self, client: str) -> None:
        """Count it."""
        self.refusals += 1
        self.last_refused = self.address_of(client)

    def take(self, amount: int, client: str) -> None:
        """Whatever room() says: who takes has asked, or has no choice."""
        self.used += amount
        address = self.address_of(client)
        self._addresses[address] = self._addresses.get(address, 0) + amount
        self._connections[client] = self._connections.get(client, 0) + amount
        if 0 < self.limit < 2 * self.used:
            self._look()

    def release(self, amount: int, client: str) -> None:
        """So much is free again."""
        self.used -= amount
        _subtract(self._addresses, self.address_of(client), amount)
        _subtract(self._connections, client, amount)
        if self.full_since is not None:
            self._look()

    def _look(self) -> None:
        if self.fresh_room >= self._fresh:
            self.full_since = None
        elif self.full_since is None:
            self.full_since = time.monotonic()


def _room(held: int, used: int, free: int, whole: int) -> int:
    """How much more one of several holders may take. held: its own of what is `used`; free: of the `whole`, for all of them."""
    share = (free - held + 1) // 2
    if held == used:  # it is alone
        share = max(share, free - whole // _KEPT)
    return max(share, 0)


def _subtract(counts: dict[str, int], key: str, amount: int) -> None:
    left = counts.get(key, 0) - amount
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)
