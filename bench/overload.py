# SPDX-License-Identifier: Apache-2.0
"""Measures goodput above saturation, and whether the metric for scaling fires before latencies double.

    python -m bench.overload [--seconds 60] [--instances 8] [--run-ms 300] [--json]

Three servers are behind the real Envoy. Each has 8 instances of a model that takes 300 ms for a request, like a server whose
cards have 8 compute units. The queue of a server holds two requests for each instance, each for three runs at most
(max_queue_size, default_timeout_microseconds). Saturation is the rate with two requests in flight for each instance, measured
before and after everything else, because the machine may do other work.
A ramp of Poisson arrivals from 0.3 to 1.1 times saturation gives, at each step, the share of time in which the instances are
busy (hypersonic_instance_busy_seconds_total) and the p99 of the latency. The metric fires above 0.88: the autoscaler of
Kubernetes ignores 10 % above the 0.8 of deploy/kubernetes. Then requests arrive at 1.5 times saturation, and after that 400
jobs, 1.5 times as many as the servers can serve, ask again and again, each after a pause of its own; the client is
hypersonic.client with a retry budget, and an answer counts if it arrives within five runs. Envoy is sized for all of the jobs
(`generate.py --jobs`), so its own retry budget lets all their retries through. Answers are compared with the rows as integers.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import random
import re
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hypersonic.client import AsyncClient, AsyncModel, Budget, ClientError, Health, Limits, Retry, Timeout
from tests.deploy.envoy.farm import Envoy, envoy, servers, write_rows
from tests.deploy.envoy.load import expected, unique_rows
from tests.support.server_program import Program

CONFIG = """
max_batch_size: 1
instance_group [ {{ count: {instances} kind: KIND_CPU }} ]
dynamic_batching {{ default_queue_policy {{ max_queue_size: {queued} default_timeout_microseconds: {microseconds} }} }}
"""
RAMP = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1)
#: the share of busy time above which servers are added: deploy/kubernetes sets 0.8, and Kubernetes ignores 10 % above it
FIRES = 0.88
#: the jobs, for which Envoy is sized
JOBS = 400
#: seconds before each measurement, during which queues and instances fill
WARM_S = 2.0
_BUSY = re.compile(r"^hypersonic_instance_busy_seconds_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Experiment:
    """The settings of a run. seconds: of the overload. step_s: of a step of the ramp. ramp: loads relative to saturation.

    instances: of the model on each server. run_ms: time of a request in the model.
    """

    seconds: float = 60.0
    step_s: float = 10.0
    instances: int = 8
    run_ms: float = 300.0
    ramp: tuple[float, ...] = RAMP


@dataclass
class Load:
    """Requests that arrived at random times. load: their rate relative to saturation. busy: share of the time of all instances.

    sent_per_request: what the client sent to Envoy, so it includes the client's retries. attempts_per_request: what Envoy sent
    to servers, so it includes those of both; a server with a full queue refuses at once.
    """

    load: float
    offered_per_s: float
    answered_per_s: float
    wrong: int
    sent_per_request: float
    attempts_per_request: float
    p99_ms: float
    busy: float


@dataclass
class Report:
    """saturation_per_s: answers per second of a closed loop, mean of two measurements. jobs: the load of 1.5 times as many jobs
    as the servers can serve. goodput, goodput_of_jobs: answers within their deadline, relative to saturation_per_s.

    unretried: failures that Envoy's retry budget did not let it send again. ejections: of servers that were only full.

    metric_at, p99_doubled_at: the load of the ramp from which on the busy share is above FIRES, and p99 is more than twice that
    of the first step; infinite if that happens at no load. busy_before_doubling: the busy share at the last step before that; a
    threshold up to this one fires before p99 has doubled.
    """

    saturation_per_s: float
    ramp: list[Load]
    overload: Load
    jobs: Load
    goodput: float
    goodput_of_jobs: float
    unretried: int
    ejections: int
    metric_at: float
    p99_doubled_at: float
    busy_before_doubling: float


@dataclass
class Site:
    """Servers behind Envoy, and a model of theirs. instances: of one server."""

    servers: Sequence[Program]
    instances: int
    edge: Envoy
    model: AsyncModel
    deadline_s: float

    def busy_s(self) -> float:
        """Return the busy seconds of all instances so far."""
        pages = []
        for one in self.servers:
            with urllib.request.urlopen(f"http://{one.ports['Metrics Service']}/metrics", timeout=30) as page:
                pages.append(page.read().decode())
        return sum(float(value) for page in pages for value in _BUSY.findall(page))

    def requests(self) -> tuple[int, int]:
        """Return the requests that Envoy got so far, and those that it sent to servers."""
        return self.edge.stat("http.grpc.downstream_rq_total"), sum(self.edge.requests().values())

    async def ask(self) -> bool | None:
        """Send one request. Returns whether the answer is that of its rows, or None if it failed or was late."""
        rows = unique_rows().reshape(1, -1)
        begin = time.monotonic()
        try:
            result = await self.model.result({"x": rows})
        except ClientError:
            return None
        if time.monotonic() - begin > self.deadline_s:
            return None
        return bool(np.array_equal(result.outputs["y"], expected(rows)))


async def saturation(site: Site, seconds: float) -> float:
    """Return the answers per second with two requests for each instance always in flight, after the first WARM_S."""
    begin = time.monotonic() + WARM_S
    answered = 0

    async def ask() -> None:
        nonlocal answered
        while time.monotonic() < begin + seconds:
            right = await site.ask()
            answered += bool(right) and begin <= time.monotonic() < begin + seconds

    await asyncio.gather(*(ask() for _ in range(2 * site.instances * len(site.servers))))
    return answered / seconds


async def offered(site: Site, load: float, per_s: float, seconds: float, think_s: float = 0.0, seed: int = 1) -> Load:
    """Let requests arrive at random times. The first WARM_S do not count.

    Args:
        think_s: 0: they arrive whether or not earlier ones are answered; otherwise they are those of JOBS jobs, each of which
            pauses for this time on average after an answer.
    """
    rng = random.Random(seed)
    outcomes: list[tuple[float, bool | None]] = []
    working: list[asyncio.Task[None]] = []

    async def ask(due: float) -> None:
        outcome = await site.ask()
        outcomes.append((time.monotonic() - due, outcome))  # from when it was due, so late sending does not hide it

    async def arrivals_of_all(begin: float, seconds: float) -> list[asyncio.Task[None]]:
        due, tasks = begin, []
        while (due := due + rng.expovariate(load * per_s)) < begin + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.append(asyncio.create_task(ask(due)))
        await asyncio.sleep(max(0.0, begin + seconds - time.monotonic()))
        return tasks

    async def arrivals_of_jobs(begin: float, seconds: float) -> list[asyncio.Task[None]]:
        tasks = []

        async def work() -> None:
            while (due := time.monotonic() + rng.expovariate(1 / think_s)) < begin + seconds:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                tasks.append(asyncio.create_task(ask(due)))
                await tasks[-1]

        working.extend(asyncio.create_task(work()) for _ in range(JOBS))
        await asyncio.sleep(max(0.0, begin + seconds - time.monotonic()))
        return tasks

    arrivals = arrivals_of_jobs if think_s else arrivals_of_all
    first = await arrivals(time.monotonic(), WARM_S)
    sent, attempts, busy_s, begin = *site.requests(), site.busy_s(), time.monotonic()
    early = len(outcomes)
    tasks = await arrivals(begin, seconds)
    elapsed, busy_s = time.monotonic() - begin, site.busy_s() - busy_s
    sent, attempts = (after - before for after, before in zip(site.requests(), (sent, attempts), strict=True))
    answered = sum(outcome is True for _, outcome in outcomes[early:])
    await asyncio.gather(*first, *tasks, *working)
    return Load(
        load=load,
        offered_per_s=round(len(tasks) / elapsed, 1),
        answered_per_s=round(answered / elapsed, 1),
        wrong=sum(outcome is False for _, outcome in outcomes),
        sent_per_request=round(sent / len(tasks), 2),
        attempts_per_request=round(attempts / len(tasks), 2),
        p99_ms=round(1000 * float(np.quantile([latency for latency, _ in outcomes[early:]], 0.99)), 1),
        busy=round(busy_s / elapsed / len(site.servers) / site.instances, 3),
    )


async def measure(running: Sequence[Program], edge: Envoy, what: Experiment) -> Report:
    """Measure saturation, the ramp and the overload."""
    deadline_s = 5 * what.run_ms / 1000
    async with AsyncClient(
        [edge.address],
        timeout=Timeout(total_s=deadline_s),
        limits=Limits(in_flight=10_000),
        # one address for all servers: three refusals in a row are no reason to leave it out
        health=Health(failures=1_000_000),
        retry=Retry(budget=Budget(tokens=10, per_success=0.1)),
    ) as client:
        site = Site(running, what.instances, edge, client.model("rows"), deadline_s)
        await site.ask()  # connects, and asks for the model's description
        per_s = await saturation(site, what.step_s)
        ramp = [await offered(site, load, per_s, what.step_s) for load in what.ramp]
        overload = await offered(site, 1.5, per_s, what.seconds)
        jobs = await offered(site, 1.5, per_s, what.seconds, think_s=JOBS / (1.5 * per_s) - what.run_ms / 1000)
        per_s = (per_s + await saturation(site, what.step_s)) / 2
    doubled_at = from_which_on(ramp, lambda each: each.p99_ms > 2 * ramp[0].p99_ms)
    return Report(
        saturation_per_s=round(per_s, 1),
        ramp=ramp,
        overload=overload,
        jobs=jobs,
        goodput=round(overload.answered_per_s / per_s, 3),
        goodput_of_jobs=round(jobs.answered_per_s / per_s, 3),
        unretried=edge.stat("cluster.servers.upstream_rq_retry_overflow"),
        ejections=edge.stat("cluster.servers.outlier_detection.ejections_enforced_total"),
        metric_at=from_which_on(ramp, lambda each: each.busy > FIRES),
        p99_doubled_at=doubled_at,
        busy_before_doubling=max((each.busy for each in ramp if each.load < doubled_at), default=0.0),
    )


def from_which_on(ramp: Sequence[Load], holds: Callable[[Load], bool]) -> float:
    """Return the load of the first step from which it holds at every step, so that a single late answer does not count."""
    steps = list(itertools.takewhile(holds, reversed(ramp)))
    return steps[-1].load if steps else math.inf


def run(what: Experiment) -> Report:
    """Start the servers and Envoy, and measure."""
    microseconds = round(3000 * what.run_ms)
    config = CONFIG.format(instances=what.instances, queued=2 * what.instances, microseconds=microseconds)
    with tempfile.TemporaryDirectory() as name:
        repository = write_rows(Path(name) / "models", what.run_ms, config)
        with (
            servers(*[repository] * 3) as running,
            envoy(Path(name) / "envoy", [each.grpc for each in running], options=("--jobs", str(JOBS))) as edge,
        ):
            return asyncio.run(measure(running, edge, what))


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of the overload (60)")
    parser.add_argument("--step-seconds", type=float, default=10.0, help="of the saturation and of each step of the ramp (10)")
    parser.add_argument("--instances", type=int, default=8, help="of the model on each server (8)")
    parser.add_argument("--run-ms", type=float, default=300.0, help="time of a request in the model (300)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    report = run(Experiment(args.seconds, args.step_seconds, args.instances, args.run_ms))
    if args.json:
        print(json.dumps(asdict(report)))
        return
    for each in (*report.ramp, report.overload, report.jobs):
        print(
            f"load {each.load:4.2f}  offered {each.offered_per_s:6.1f}/s  answered {each.answered_per_s:6.1f}/s  "
            f"sent {each.sent_per_request:4.2f}  attempts {each.attempts_per_request:4.2f}  p99 {each.p99_ms:6.1f} ms  "
            f"busy {each.busy:.2f}"
        )
    print(f"saturation {report.saturation_per_s}/s, goodput at 1.5 times it {report.goodput:.0%}")
    print(f"with 1.5 times as many jobs as can be served {report.goodput_of_jobs:.0%}")
    print(f"failures beyond Envoy's retry budget {report.unretried}, ejections {report.ejections}")
    print(f"busy above {FIRES} from load {report.metric_at}, p99 doubled from load {report.p99_doubled_at}")
    print(f"a threshold of the busy share up to {report.busy_before_doubling:.2f} fires before p99 has doubled")


if __name__ == "__main__":
    main()
