# SPDX-License-Identifier: Apache-2.0
"""Latencies at several loads, from the simulation of a farm (plan/farm) with the capacities of a plan.

The simulated farm is smaller than the site, with the same arrivals at each server:

- instead of many servers, a few, with their share of the jobs, the cards and the site's switch;
- instead of an event with several calls, one call with its part of the own work. A job repeats it for each call of an event;
- instead of too many jobs, a part f of them, whose unqueued cycle takes f times as long. Above saturation the wait for the jobs
  that were left out is added again. Near saturation the longest waits come out too short, because fewer jobs cluster less.

The time of an event is the mean of the own work, plus the simulated mean time of its calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypersonic.firmware.card_parameters import SLOTS
from hypersonic.plan.farm import (
    Batching,
    Call,
    ClosedLoop,
    Failure,
    Farm,
    Histogram,
    Linear,
    Link,
    Server,
    ServiceTime,
)
from hypersonic.plan.farm import simulate as simulate_farm
from hypersonic.plan.inputs import Question
from hypersonic.plan.limits import Capacity, execution_s, units_at_work
from hypersonic.plan.points import SimulatedPoint, SitePart

#: the fewest and the most servers that are simulated, if the site has them; the most jobs at saturation that they may have
LEAST_SERVERS, MOST_SERVERS, MOST_JOBS = 2, 4, 4000
#: the lengths of warm-up and measurement: at least this many cycles of a job, and this many calls
_CYCLES, _CALLS = 2.0, 4000
#: the largest load that is simulated
MOST_RATIO = 1.5


@dataclass(frozen=True)
class Size:
    """How much of a site is simulated. servers: least and most. jobs: most at saturation, in the servers and in all."""

    least_servers: int = LEAST_SERVERS
    most_servers: int = MOST_SERVERS
    most_jobs: int = MOST_JOBS


DEFAULT_SIZE = Size()


def part_of(question: Question, capacity: Capacity, size: Size = DEFAULT_SIZE) -> SitePart:
    """Return the part of a site that a simulation of it covers."""
    fitting = int(size.most_jobs * capacity.servers / capacity.jobs)
    servers = min(capacity.servers, size.most_servers, max(size.least_servers, fitting))
    if servers == capacity.servers:
        return SitePart(servers, servers, 1.0)
    return SitePart(servers, capacity.servers, servers * question.site.cards_per_server / capacity.cards)


def simulate_load(
    question: Question,
    capacity: Capacity,
    ratio: float,
    *,
    batching: Batching | None = None,
    seed: int = 1,
    failing: float = 0.0,
    size: Size = DEFAULT_SIZE,
) -> SimulatedPoint:
    """Simulate `ratio` of the saturation's jobs on the site of `capacity`.

    Above MOST_RATIO the simulation is that of MOST_RATIO, and every further job makes all wait as the law says. Raises
    FarmError, PlatformError.

    Args:
        batching: the servers' rule (None: each request is an execution).
        failing: the share of the simulated cards, a whole number of them, that fail in the middle of the warm-up, and do not
            return; the balancer has taken them out before its end.
    """
    part, work, model = part_of(question, capacity, size), question.workload, question.model
    cycle_s, own_s = capacity.unqueued.ideal_s / work.calls, capacity.unqueued.own_s / work.calls
    loaded = min(ratio, MOST_RATIO)
    asked = loaded * capacity.jobs * part.share
    jobs = math.ceil(asked)
    kept = min(1.0, max(size.most_jobs / (capacity.jobs * part.share), 1 - 0.9 * own_s / cycle_s))
    simulated, left_out_s = max(1, round(jobs * kept)), (1 - kept) * cycle_s
    call = Call(work.rows, work.rows * model.input_bytes, work.rows * model.output_bytes)
    whole_s = (jobs / asked - 1) * cycle_s  # a part of a job is a job that calls less often
    load = ClosedLoop(simulated, max(1e-6, own_s - left_out_s + whole_s), call)
    overload = max(1.0, loaded / (1 - failing))  # of the cards that are left
    half_s = max(_CYCLES, _CALLS / simulated) * kept * cycle_s * overload
    farm = farm_of(question, capacity, part, batching, failing=failing, at_s=half_s / 2)
    result = simulate_farm(farm, load, seconds=2 * half_s, warmup_s=half_s, seed=seed)
    total = ratio * capacity.jobs
    waiting_s = (overload - 1) * (left_out_s - whole_s) + (ratio - loaded) / (1 - failing) * cycle_s
    return SimulatedPoint(
        ratio,
        total,
        result.events_per_s / part.share / work.calls,
        work.calls * (own_s + result.call_s.mean_s + waiting_s),
        total / capacity.rate(total),
        result.call_s.p50_s + waiting_s,
        result.call_s.p99_s + waiting_s,
        result.utilisation.units,
    )


def farm_of(
    question: Question,
    capacity: Capacity,
    part: SitePart,
    batching: Batching | None,
    *,
    failing: float = 0.0,
    at_s: float = 0.0,
) -> Farm:
    """Return the farm that is simulated: its servers, the switch's share, and the cards that fail at `at_s`."""
    site, per_server = question.site, question.site.cards_per_server
    extra_s = max(0.0, capacity.unqueued.card_s - capacity.unqueued.service_s)
    link = Link(site.server_gbps * 1e9, delay_s=(site.rtt_ms / 1e3 + extra_s) / 2)
    units, service = _service(question)
    servers = tuple(
        Server(
            service,
            cards=min(per_server, capacity.cards - index * per_server) if part.share == 1 else per_server,
            units_per_card=units,
            link=link,
            cpu_cores=site.cores,
            request_cpu=site.request_cpu(question.model.input_bytes),
            lock_s=site.lock_s,
            batching=None if question.model.measured else batching,
            slots_per_unit=SLOTS,
        )
        for index in range(part.servers)
    )
    switch = Link()
    if site.switch_gbps:
        switch = Link(site.switch_gbps * part.share * 1e9, background_bits_per_s=site.background_gbps * part.share * 1e9)
    cards = [(index, card) for index, server in enumerate(servers) for card in range(server.cards)]
    failed = cards[:: max(1, round(1 / failing))][: round(failing * len(cards))] if failing else []
    failures = tuple(Failure(server, card, at_s) for server, card in failed)
    return Farm(servers, switch, failures=failures, detection_s=min(1.0, at_s / 4))


def _service(question: Question) -> tuple[int, ServiceTime]:
    """Return the compute units of a card that work at the same time, and the service time of one."""
    measured = question.model.measured
    if measured:
        times = Histogram(measured.bounds_s, measured.counts, execution_s(measured, question.workload.rows))
        return question.model.units, times
    units, row_s = units_at_work(question)
    return units, Linear(0.0, row_s)
