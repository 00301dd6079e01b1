# SPDX-License-Identifier: Apache-2.0
"""Open connections by port: gRPC core shows none of its own, so this process's sockets are asked when somebody looks.

The kernel's table in /proc/net/tcp would tell as well, but takes as long as the whole host has connections.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

_DESCRIPTORS = "/proc/self/fd"
#: a look takes a few microseconds for each
_MOST_DESCRIPTORS = 1 << 17


class Connection(NamedTuple):
    """A connected TCP socket of this process. port: the local one; client: the other end, as HTTP writes it."""

    descriptor: int
    port: int
    client: str

    def shut_down(self) -> None:
        """Whoever reads it finds its end. Nothing happens if the descriptor is another connection's by now."""
        with suppress(OSError), _borrowed(self.descriptor) as asked:
            if _client_of(asked) == self.client:
                asked.shutdown(socket.SHUT_RDWR)


def open_connections(ports: Iterable[int]) -> dict[int, int]:
    """Local port -> this process's TCP connections on it, idle ones included; empty where its descriptors cannot be listed."""
    counts = dict.fromkeys(ports, 0)
    try:
        for connection in _connections(counts):
            counts[connection.port] += 1
    except OSError:
        return {}
    return counts


def connections_on(ports: Container[int]) -> list[Connection]:
    """All of them; none where descriptors cannot be listed."""
    with suppress(OSError):
        return list(_connections(ports))
    return []


def count_descriptors() -> int:
    """How many this process has open, of any kind; 0 where they cannot be listed."""
    with suppress(OSError), os.scandir(_DESCRIPTORS) as entries:
        return sum(1 for _ in entries)
    return 0


def _connections(ports: Container[int]) -> Iterator[Connection]:
    with os.scandir(_DESCRIPTORS) as entries:
        descriptors = [int(entry.name) for entry in islice(entries, _MOST_DESCRIPTORS)]
    for descriptor in descriptors:
        with suppress(OSError), _borrowed(descriptor) as asked:  # a file, a listener, or closed meanwhile
            client, name = _client_of(asked), asked.getsockname()
            if isinstance(name, tuple) and len(name) in (2, 4) and name[1] in ports:
                yield Connection(descriptor, name[1], client)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """The descriptor is somebody else's: it is asked and never closed. Raises OSError for what is not a socket."""
    asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    try:
        yield asked
    finally:
        asked.detach()


def _client_of(asked: socket.socket) -> str:
    """Raises OSError for a listener."""
    name = asked.getpeername()
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else ""
