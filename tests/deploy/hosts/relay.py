# SPDX-License-Identifier: Apache-2.0
"""A link with a delay and a loss, for kernels without netem: forwards packets between TUN devices of two namespaces.

    python relay.py NAMESPACE DEVICE NAMESPACE DEVICE DELAY_S LOSS SEED

It creates both devices and prints `ready`. Each packet is forwarded DELAY_S seconds after it was read, in order, in both
directions; a share LOSS of them is dropped, as a generator with the seed says. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LONGEST_PACKET = 65_536
#: packets that wait in one direction; more are dropped, as a router does
MOST_WAITING = 20_000


def open_tun(namespace: str, device: str) -> int:
    """Return the descriptor of a new TUN device, whose packets are read and written without blocking."""
    with Path(f"/run/netns/{namespace}").open() as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def forward(tuns: Sequence[int], delay_s: float, loss: float, rng: random.Random) -> None:
    """Forward packets until the process ends."""
    other = {tuns[0]: tuns[1], tuns[1]: tuns[0]}
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    poll = select.epoll()
    for tun in tuns:
        poll.register(tun, select.EPOLLIN)
    while True:
        timeout_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else -1
        for tun, _events in poll.poll(timeout_s):
            for packet in packets(tun):
                if rng.random() >= loss and len(waiting) < MOST_WAITING:
                    heapq.heappush(waiting, (time.monotonic() + delay_s, count, other[tun], packet))
                    count += 1
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, tun, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):  # the device is down, or its queue is full: the packet is lost
                os.write(tun, packet)


def packets(tun: int) -> list[bytes]:
    """Return the packets that wait at a device, at most 64."""
    found: list[bytes] = []
    with contextlib.suppress(OSError):  # no more packets, or the device is down
        while len(found) < 64:
            found.append(os.read(tun, LONGEST_PACKET))
    return found


def main(argv: Sequence[str]) -> None:
    """Create the devices and forward packets."""
    devices = [open_tun(argv[0], argv[1]), open_tun(argv[2], argv[3])]
    os.write(1, b"ready\n")
    forward(devices, float(argv[4]), float(argv[5]), random.Random(int(argv[6])))


if __name__ == "__main__":
    main(sys.argv[1:])
