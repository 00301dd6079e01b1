# SPDX-License-Identifier: Apache-2.0
"""ConnectionLimiter: limits how many connections each address may have open, on all ports and for all libraries.

gRPC core, uvicorn and their TLS handshakes accept every connection until file descriptors run out, and one address alone could
take them all. The limiter therefore checks the sockets of this process about once a second: if half of the descriptors, or of
the connections that a port may have, are in use, it shuts down new connections of an address that has reached its
share (see budget.py). A burst between two checks is let in; gRPC core's own limit is twice the limit that is shared here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from hypersonic.server.limits.budget import Budget
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.saturation import Saturation
from hypersonic.server.limits.sockets import Connection, connections_on, count_descriptors

#: descriptors that are kept for things other than connections: models' files, pipes, cards
_RESERVED = 64


class ConnectionLimiter:
    """Shuts down connections that exceed the share of their address. Only one thread may call enforce()."""

    def __init__(
        self,
        ports: Callable[[], Mapping[str, int]],
        peers: Peers,
        saturation: Saturation,
        limits: Mapping[str, int],
        descriptors: int,
    ) -> None:
        """Create a ConnectionLimiter.

        Args:
            ports: returns front end -> the port it listens on.
            limits: front end -> the most connections at one time, for the front ends that have a limit.
            descriptors: how many the process may have open.
        """
        self._ports = ports
        self._limits = {front_end: Budget(limit, peers) for front_end, limit in limits.items()}
        self._all = Budget(max(1, descriptors - _RESERVED), peers)
        for front_end, budget in self._limits.items():
            saturation.add(f"{front_end}_connections", budget)
        saturation.add("connections", self._all)
        self._open: dict[Connection, list[Budget]] = {}
        #: a descriptor that enforce() closes while it works, in case no other descriptor is free
        self._spare = _spare()

    def enforce(self) -> None:
        """Shut down the new connections that exceed the share of their address."""
        if self._spare is not None:
            os.close(self._spare)
        try:
            self._enforce()
        finally:
            self._spare = _spare()

    def _enforce(self) -> None:
        used = count_descriptors()
        few = min(budget.limit for budget in (self._all, *self._limits.values()))
        ports = {port: front_end for front_end, port in self._ports().items()}
        connections = connections_on(ports) if 2 * used > few else []
        self._forget(set(self._open) - set(connections))
        for connection in connections:
            if connection not in self._open:
                self._admit(connection, ports[connection.port])

    def _forget(self, closed: Iterable[Connection]) -> None:
        for connection in closed:
            for budget in self._open.pop(connection):
                budget.release(1, connection.client)

    def _admit(self, connection: Connection, front_end: str) -> None:
        asked = [self._all, *([self._limits[front_end]] if front_end in self._limits else [])]
        client = connection.client
        without = [budget for budget in asked if budget.room(client)[0] < 1]
        if without:
            for budget in without:
                budget.refused(client)
            connection.shut_down()
            return
        for budget in asked:
            budget.take(1, client)
        self._open[connection] = asked


def _spare() -> int | None:
    with suppress(OSError):
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return None
