# SPDX-License-Identifier: Apache-2.0
"""Measures the server's resident memory over many FACILE-sized requests, and its CPU time while connected clients are idle.

    python bench/server_memory.py [--requests 20000] [--connections 256] [--json]

The server and its null device are those of server_cost.py. Resident memory is read at every hundredth request, after the first
tenth of the requests has filled malloc's arenas; the figure is the slope of the least-squares line through the samples. CPU
time is the process's clock over some seconds without requests, first without clients and then with them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from server_cost import CHANNEL, LOADS, METHOD, Running, running

FACILE = next(load for load in LOADS if load.name == "facile")
SMALL = next(load for load in LOADS if load.name == "small")
IN_FLIGHT = 4
READY_S = 60.0


@dataclass(frozen=True)
class Memory:
    """Resident memory over `requests` requests: its slope, and the first and last samples."""

    requests: int
    slope_bytes_per_request: float
    first_mib: float
    last_mib: float


@dataclass(frozen=True)
class Idle:
    """CPU time per second without requests: without clients, and with that many connections."""

    connections: int
    alone_ms_per_s: float
    connected_ms_per_s: float


def resident_bytes(server: Running) -> int:
    """Return the server's resident memory in bytes, from the second field of statm (proc(5))."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def connected(server: Running, clients: int) -> Iterator[list[grpc.Channel]]:
    """Open channels to the server, each with a connection of its own, inside the context."""
    with ExitStack() as opened:
        options = [*CHANNEL, ("grpc.use_local_subchannel_pool", 1)]
        channels = [opened.enter_context(grpc.insecure_channel(server.address, options=options)) for _ in range(clients)]
        for channel in channels:
            grpc.channel_ready_future(channel).result(READY_S)
        yield channels


def memory(server: Running, requests: int) -> Memory:
    """Measure resident memory while IN_FLIGHT clients send `requests` requests in total."""
    data = FACILE.request()
    lock = threading.Lock()
    samples: list[tuple[int, int]] = []
    sent = 0

    def client(channel: grpc.Channel) -> None:
        nonlocal sent
        call: Any = channel.unary_unary(METHOD)
        while True:
            with lock:
                sent += 1
                number = sent
            if number > requests:
                return
            call(data)
            if number % 100 == 0 and number > requests // 10:
                samples.append((number, resident_bytes(server)))

    with connected(server, IN_FLIGHT) as channels, ThreadPoolExecutor(IN_FLIGHT) as pool:
        for future in [pool.submit(client, channel) for channel in channels]:
            future.result()
    numbers, sizes = zip(*sorted(samples), strict=True)
    slope = float(np.polyfit(numbers, sizes, 1)[0])
    return Memory(requests, round(slope, 1), round(sizes[0] / 2**20, 1), round(sizes[-1] / 2**20, 1))


def silent_ms_per_s(server: Running, seconds: float) -> float:
    """Return the server's CPU time, in ms per second, over some seconds from now."""
    before = server.cpu_ns()
    time.sleep(seconds)
    return (server.cpu_ns() - before) / 1e6 / seconds


def idle(server: Running, connections: int, seconds: float) -> Idle:
    """Measure the CPU time without requests. Each client has received one answer before."""
    alone = silent_ms_per_s(server, seconds)
    with connected(server, connections) as channels:
        for channel in channels:
            channel.unary_unary(METHOD)(SMALL.request())
        time.sleep(1.0)  # until gRPC's bandwidth probes and settings frames have ended
        return Idle(connections, round(alone, 2), round(silent_ms_per_s(server, seconds), 2))


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=20_000, help="requests to send (default: 20000)")
    parser.add_argument("--connections", type=int, default=256, help="idle connections (default: 256)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds without requests to measure (default: 5)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on standard output")
    args = parser.parse_args()
    with running("hypersonic") as server:
        silence = idle(server, args.connections, args.seconds)
        figures = f"alone {silence.alone_ms_per_s:.2f} ms CPU/s  connected {silence.connected_ms_per_s:.2f} ms CPU/s"
        print(f"{silence.connections} idle connections  {figures}", file=sys.stderr)
        kept = memory(server, args.requests)
        figures = f"{kept.slope_bytes_per_request:.1f} bytes/request  from {kept.first_mib} to {kept.last_mib} MiB"
        print(f"{kept.requests} requests  {figures}", file=sys.stderr)
    if args.json:
        print(json.dumps({"memory": asdict(kept), "idle": asdict(silence)}, indent=2))


if __name__ == "__main__":
    main()
