# SPDX-License-Identifier: Apache-2.0
"""Measures the client's limits: attempts and deadline when all servers are dead, and resident memory over many requests.

    python bench/client_limits.py [--requests 100000] [--json]

Dead servers: nothing listens on their ports. The deadline: a server accepts the connection and never answers. Memory:
requests of 72 kB in map(), 16 in flight, to the null server of client_cost.py; the figure is the growth after the first tenth.
Then the client is closed, and the threads, descriptors and shared-memory regions that it leaves are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from client_cost import FEATURES, null_server

from hypersonic.client import AllServersFailedError, Client, Limits, Timeout


def dead(requests: int = 1000) -> dict[str, Any]:
    """The attempts of each request when no server is there."""
    with Client(["127.0.0.1:1", "127.0.0.1:2"]) as client:
        model, attempts = client.model("facile"), 0
        for _ in range(requests):
            try:
                model.infer(np.zeros((1, FEATURES), np.float32))
            except AllServersFailedError as error:
                attempts += len(error.attempts)
    return {"dead_servers_attempts_per_request": attempts / requests}


def deadline(total_s: float = 0.5, requests: int = 5) -> dict[str, Any]:
    """How far beyond the total time a request ends, in ms, when the server never answers."""
    late = []
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        Client(f"127.0.0.1:{listening.getsockname()[1]}", timeout=Timeout(total_s=total_s, connect_s=0.1)) as client,
    ):
        for _ in range(requests):
            begin = time.monotonic()
            try:
                client.model("facile").infer(np.zeros((1, FEATURES), np.float32))
            except AllServersFailedError:
                late.append(1000 * (time.monotonic() - begin - total_s))
    return {"deadline_late_ms": max(late)}


def memory(requests: int) -> dict[str, Any]:
    """The growth of resident memory, and what is left after close."""
    rows = np.zeros((1000, FEATURES), np.float32)
    threads, descriptors = threading.active_count(), open_descriptors()
    with null_server() as address, Client(address, limits=Limits(in_flight=16)) as client:
        at = []
        for count, _ in enumerate(client.model("facile").map(rows for _ in range(requests))):
            if count % (requests // 10) == 0:
                at.append(resident_mb())
    time.sleep(1)  # until gRPC's own threads have ended
    left = {"threads": threading.active_count() - threads, "descriptors": open_descriptors() - descriptors}
    left["shared_memory"] = sum("hypersonic" in name for name in os.listdir("/dev/shm"))  # noqa: PTH208
    return {"request_kb": rows.nbytes // 1000, "resident_growth_mb": max(at[1:]) - at[1], "left_after_close": left}


def resident_mb() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_descriptors() -> int:
    """The open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000, help="requests of the memory test")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = {**dead(), **deadline(), **memory(args.requests)}
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:36} {value}")


if __name__ == "__main__":
    main()
