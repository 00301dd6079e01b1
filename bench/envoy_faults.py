# SPDX-License-Identifier: Apache-2.0
"""Counts lost requests while one of three servers behind the real Envoy is killed, or drains, or is slow.

    python -m bench.envoy_faults [--requests 20000] [--jobs 400] [--json]

Each server has a model of the python backend that answers 2 x + 1 in INT32 after 1 ms. Each request has different numbers, and
its answer is compared with them as integers. After a third of the requests one server gets the signal. The same number of
requests is sent at the same time with tritonclient, which does not retry, and with hypersonic.client. Envoy has the
configuration of deploy/envoy. Then one of three servers takes 60 ms for an answer, and its share of the requests is counted.
At last, as many jobs as are given ask three servers, which they saturate, and after a third of the requests one of the servers
is stopped (SIGSTOP) or killed.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import envoy, servers, write_rows

Figures = dict[str, float]


def with_fault(directory: Path, requests: int, how: signal.Signals) -> Figures:
    """Send `how` to one server under load; return the counts."""
    repository = write_rows(directory / how.name, delay_ms=1)
    with servers(*[repository] * 3) as running, envoy(directory / f"{how.name}-envoy", [each.grpc for each in running]) as edge:

        def stop() -> None:
            running[0].process.send_signal(how)

        senders: dict[str, Callable[..., load.Outcome]] = {"tritonclient": load.plain, "hypersonic.client": load.ours}
        with ThreadPoolExecutor(2) as pool:
            started = {
                name: pool.submit(send, edge.address, requests, {requests // 3: stop} if send is load.plain else {})
                for name, send in senders.items()
            }
            outcomes = {name: each.result() for name, each in started.items()}
        figures: Figures = {f"{how.name}: retries by Envoy": edge.stat("cluster.servers.upstream_rq_retry")}
    for name, outcome in outcomes.items():
        figures[f"{how.name}: failed of {requests} with {name}"] = len(outcome.failures)
        figures[f"{how.name}: answers of another request with {name}"] = outcome.strangers
    return figures


def with_slow(directory: Path, requests: int) -> Figures:
    """Return the share of a slow server of three."""
    quick, slow = write_rows(directory / "quick", delay_ms=1), write_rows(directory / "slow", delay_ms=60)
    with servers(slow, quick, quick) as running, envoy(directory / "slow-envoy", [each.grpc for each in running]) as edge:
        load.plain(edge.address, requests, {})
        counts = edge.requests()
    return {"share of a slow server of three": round(counts[running[0].grpc] / sum(counts.values()), 3)}


def with_jobs(directory: Path, jobs: int, requests: int, how: signal.Signals) -> Figures:
    """Send `how` to one of three saturated servers; return the counts. A server answers eight requests in 80 ms."""
    name = f"{how.name}-saturated"
    repository = write_rows(directory / name, 80, "instance_group [ { count: 8 kind: KIND_CPU } ]")
    with (
        servers(*[repository] * 3) as running,
        envoy(directory / f"{name}-envoy", [each.grpc for each in running], options=("--jobs", str(jobs))) as edge,
    ):
        stop = {requests // 3: lambda: running[0].process.send_signal(how)}
        outcome = load.jobs(edge.address, jobs, requests, stop)
        retries = edge.stat("cluster.servers.upstream_rq_retry")
    return {
        f"{how.name} of a saturated server: failed of {outcome.asked} with {jobs} jobs": len(outcome.failures),
        f"{how.name} of a saturated server: answers of another request": outcome.strangers,
        f"{how.name} of a saturated server: retries by Envoy": retries,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        figures = {
            **with_fault(directory, args.requests, signal.SIGKILL),
            **with_fault(directory, args.requests, signal.SIGTERM),
            **with_slow(directory, max(300, args.requests // 10)),
            **with_jobs(directory, args.jobs, args.requests, signal.SIGSTOP),
            **with_jobs(directory, args.jobs, args.requests, signal.SIGKILL),
        }
    if args.json:
        print(json.dumps(figures))
        return
    for title, value in figures.items():
        print(f"{title:75} {value:g}")


if __name__ == "__main__":
    main()
