# SPDX-License-Identifier: Apache-2.0
"""Measures the client's CPU time per request with tensors in messages and in shared memory, and the ratio of the two.

    python bench/client_shared_memory.py [--requests 500]

The server is that of server_cost.py, in a process of its own, with a card that computes nothing. CPU time is that of this
process with all its threads; wall time is a request's from call to answer, one at a time. Rounds alternate, and the figures are
medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from server_cost import LOADS, Load, running

from hypersonic.client import Client, Settings
from hypersonic.client.model import Model

MODES = {"message": Settings(), "shared memory": Settings(shared_memory="auto")}


def cost_us(model: Model, rows: np.ndarray, requests: int) -> tuple[float, float]:
    """Return the CPU and wall time per request, in us."""
    model.infer(rows)
    cpu_ns, wall_ns = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(requests):
        model.infer(rows)
    return (time.process_time_ns() - cpu_ns) / requests / 1000, (time.perf_counter_ns() - wall_ns) / requests / 1000


def measure(address: str, load: Load, requests: int, rounds: int) -> None:
    """Print a line for each mode, and the ratio."""
    rows = np.ones((load.rows, load.n_in), np.float32)
    with Client(address, MODES["message"]) as plain, Client(address, MODES["shared memory"]) as sharing:
        models = [client.model(load.name) for client in (plain, sharing)]
        for model in models:
            cost_us(model, rows, 20)  # connects, and registers the region
        pairs = [[cost_us(model, rows, requests) for model in models] for _ in range(rounds)]
    for place, mode in enumerate(MODES):
        cpu_us, wall_us = (statistics.median(pair[place][which] for pair in pairs) for which in (0, 1))
        print(f"{load.name:8} {rows.nbytes / 1e6:5.2f} MB  {mode:14} {cpu_us:7.0f} us CPU  {wall_us:7.0f} us wall")
    ratio = statistics.median(pair[1][0] / pair[0][0] for pair in pairs)
    print(f"{load.name:8} {rows.nbytes / 1e6:5.2f} MB  CPU ratio shared memory / message: {ratio:.2f}")


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=500, help="requests per round (default: 500)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (default: 5)")
    args = parser.parse_args()
    with running("hypersonic") as server:
        for load in LOADS:
            if load.datatype == "FP32":
                measure(server.address, load, args.requests, args.rounds)


if __name__ == "__main__":
    main()
