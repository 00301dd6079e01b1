# SPDX-License-Identifier: Apache-2.0
"""Lists the open connections of this process by port. gRPC core does not list its own, so the process's sockets are examined.

The kernel's table in /proc/net/tcp has them too, but the time to read it grows with the connections of the whole host.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

_DESCRIPTORS = "/proc/self/fd"
#: the most descriptors that are examined; each takes a few microseconds
_MOST_DESCRIPTORS = 1 << 17


class Connection(NamedTuple):
    """A connected TCP socket of this process.

    Attributes:
        port: the local port.
        client: the other end, as `address:port`.
    """

    descriptor: int
    port: int
    client: str

    def shut_down(self) -> None:
        """Shut the connection down in both directions. Does nothing if the descriptor belongs to another connection by now."""
        with suppress(OSError), _borrowed(self.descriptor) as asked:
            if _client_of(asked) == self.client:
                asked.shutdown(socket.SHUT_RDWR)


def open_connections(ports: Iterable[int]) -> dict[int, int]:
    """Return local port -> number of this process's TCP connections on it, including idle ones.

    Returns nothing if the process's descriptors cannot be listed.
    """
    counts = dict.fromkeys(ports, 0)
    try:
        for connection in _connections(counts):
            counts[connection.port] += 1
    except OSError:
        return {}
    return counts


def connections_on(ports: Container[int]) -> list[Connection]:
    """Return this process's TCP connections on these local ports; none if its descriptors cannot be listed."""
    with suppress(OSError):
        return list(_connections(ports))
    return []


def count_descriptors() -> int:
    """Return how many descriptors of any kind this process has open; 0 if they cannot be listed."""
    with suppress(OSError), os.scandir(_DESCRIPTORS) as entries:
        return sum(1 for _ in entries)
    return 0


def _connections(ports: Container[int]) -> Iterator[Connection]:
    with os.scandir(_DESCRIPTORS) as entries:
        descriptors = [int(entry.name) for entry in islice(entries, _MOST_DESCRIPTORS)]
    for descriptor in descriptors:
        with suppress(OSError), _borrowed(descriptor) as asked:  # it may be a file, a listener, or closed meanwhile
            client, name = _client_of(asked), asked.getsockname()
            if isinstance(name, tuple) and len(name) in (2, 4) and name[1] in ports and _is_stream(asked):
                yield Connection(descriptor, name[1], client)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Yield a socket object for a descriptor that other code owns, and never close it. Raises OSError if it is not a socket."""
    asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    try:
        yield asked
    finally:
        asked.detach()


def _is_stream(asked: socket.socket) -> bool:
    """Return whether it is a TCP socket; a UDP socket, a resolver's, may have the number of a TCP port."""
    return asked.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM


def _client_of(asked: socket.socket) -> str:
    """Return the other end as `address:port`, "" if it is not a TCP connection. Raises OSError for a listener."""
    name = asked.getpeername()
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else ""
