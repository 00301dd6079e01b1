# SPDX-License-Identifier: Apache-2.0
"""Budget: how much of a limited resource (bytes, places, streams) each client may hold.

The resource is shared among addresses (see peers.py), then among the connections of an address, by dynamic thresholds
(Choudhury, Hahne: Dynamic queue length thresholds, IEEE/ACM Trans. Networking, 1998): a holder may take more as long as at
least as much stays free as it holds afterwards. An address that is the only holder may take all but an eighth, and so may a
connection that is the only one of its address.

This guarantees that, whatever k other addresses hold, and in whichever order they took it, at least limit / 2^(k+2) are free,
and that an address that holds nothing can take at least 7/16 of the free amount in one piece (or the last unit of things that
are counted one by one).
"""

from __future__ import annotations

import time

from hypersonic.server.limits.peers import Peers

#: 1 / _KEPT of the limit is kept for a second address
_KEPT = 8
#: a value that means "no limit"
_ENDLESS = 1 << 62


class Budget:
    """The use of one resource. It takes no lock, so its owner has to hold one. A client is named by its connection."""

    def __init__(self, limit: int, peers: Peers | None = None, fresh: int = 1) -> None:
        """Create a Budget.

        Args:
            limit: 0 = none.
            fresh: the amount that a typical request takes; full_since is set while a new address could not take it.
        """
        self.limit = limit
        self.used = 0
        #: how often an amount was refused
        self.refusals = 0
        #: the address that was refused last
        self.last_refused = ""
        #: since when an address that holds nothing would be refused, of time.monotonic(); None = it would not
        self.full_since: float | None = None
        self.address_of = (peers or Peers()).address_of
        self._fresh = fresh
        self._addresses: dict[str, int] = {}
        self._connections: dict[str, int] = {}

    def held(self, client: str) -> tuple[int, int]:
        """Return the amounts that (its address, the connection itself) hold."""
        return self._addresses.get(self.address_of(client), 0), self._connections.get(client, 0)

    def room(self, client: str) -> tuple[int, int]:
        """Return the amounts that (its address, the connection itself) may still take."""
        if not self.limit:
            return _ENDLESS, _ENDLESS
        by_address, by_connection = self.held(client)
        address = _room(by_address, self.used, self.limit - self.used, self.limit)
        return address, _room(by_connection, by_address, address, by_address + address)

    def fits(self, amount: int, client: str) -> bool:
        """Return whether a connection may take this amount, that is, room() >= amount. Fast while most of it is free."""
        return 4 * (self.used + amount) <= self.limit or amount <= self.room(client)[1]

    @property
    def fresh_room(self) -> int:
        """The amount that a connection of an address that holds nothing may take."""
        if not self.limit:
            return _ENDLESS
        address = _room(0, self.used, self.limit - self.used, self.limit)
        return _room(0, 0, address, address)

    def refused(self, client: str) -> None:
        """Count a refusal."""
        self.refusals += 1
        self.last_refused = self.address_of(client)

    def take(self, amount: int, client: str) -> None:
        """Count an amount as held. Does not check it: the caller has called fits(), or cannot refuse."""
        self.used += amount
        address = self.address_of(client)
        self._addresses[address] = self._addresses.get(address, 0) + amount
        self._connections[client] = self._connections.get(client, 0) + amount
        if 0 < self.limit < 2 * self.used:
            self._look()

    def release(self, amount: int, client: str) -> None:
        """Count an amount as free again."""
        self.used -= amount
        for counts, key in ((self._addresses, self.address_of(client)), (self._connections, client)):
            left = counts.get(key, 0) - amount
            if left > 0:
                counts[key] = left
            else:
                counts.pop(key, None)
        if self.full_since is not None:
            self._look()

    def _look(self) -> None:
        if self.fresh_room >= self._fresh:
            self.full_since = None
        elif self.full_since is None:
            self.full_since = time.monotonic()


def _room(held: int, used: int, free: int, whole: int) -> int:
    """Return how much more one of several holders may take.

    Args:
        held: its part of `used`, which all of them hold.
        free: the part of `whole` that nobody holds.
    """
    share = (free - held + 1) // 2
    if held == used:  # it is the only holder
        share = max(share, free - whole // _KEPT)
    return max(share, 0)
