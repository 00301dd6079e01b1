# SPDX-License-Identifier: Apache-2.0
"""Ports for a program that cannot be told to choose its own."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _LEAST_END = 10_000, 20_000


def free_ports(count: int) -> list[int]:
    """Return different ports of the loopback interface that nobody listens at.

    They are below those that Linux gives to connections and to servers that leave the choice to it, so that they stay free.
    """
    end = max(_LEAST_END, int(_RANGE.read_text().split()[0]))
    found: list[int] = []
    for port in random.sample(range(_FIRST, end), end - _FIRST):
        if len(found) == count:
            break
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found
