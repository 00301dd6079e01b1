# SPDX-License-Identifier: Apache-2.0
"""Open connections by port: gRPC core shows none of its own, so this process's sockets are asked when somebody looks.

The kernel's table in /proc/net/tcp would tell as well, but takes as long as the whole host has connections.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from itertools import islice

_DESCRIPTORS = "/proc/self/fd"
#: a look takes a few microseconds for each
_MOST_DESCRIPTORS = 1 << 17


def open_connections(ports: Iterable[int]) -> dict[int, int]:
    """Local port -> this process's TCP connections on it, idle ones included; empty where its descriptors cannot be listed."""
    counts = dict.fromkeys(ports, 0)
    try:
        with os.scandir(_DESCRIPTORS) as entries:
            descriptors = [int(entry.name) for entry in islice(entries, _MOST_DESCRIPTORS)]
    except OSError:
        return {}
    for descriptor in descriptors:
        port = _connected_port(descriptor)
        if port in counts:
            counts[port] += 1
    return counts


def _connected_port(descriptor: int) -> int | None:
    """The local port of a connected TCP socket. The descriptor is somebody else's: it is asked and never closed."""
    try:
        asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    except OSError:  # a file, or closed meanwhile
        return None
    try:
        asked.getpeername()  # fails for listeners
        name = asked.getsockname()
        return name[1] if isinstance(name, tuple) and len(name) in (2, 4) and isinstance(name[1], int) else None
    except OSError:
        return None
    finally:
        asked.detach()
