# SPDX-License-Identifier: Apache-2.0
"""Simulate a farm under a load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hypersonic.plan.farm.engine.clients import Clients
from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.drivers import Arrivals, Jobs
from hypersonic.plan.farm.engine.meter import Meter, spread
from hypersonic.plan.farm.engine.network import Machine, Network
from hypersonic.plan.farm.engine.turning import Table
from hypersonic.plan.farm.errors import FarmError, check_count
from hypersonic.plan.farm.loads import ClosedLoop, Load
from hypersonic.plan.farm.machines import Farm, check_hosts
from hypersonic.plan.farm.result import Counts, Mix, Result, ServerUse, Utilisation


def simulate(farm: Farm, load: Load, *, seconds: float, warmup_s: float = 0.0, seed: int = 1) -> Result:
    """Simulate `seconds` of a farm under a load; measure from `warmup_s` on.

    The same arguments give the same result, to the last bit. The warm-up has to last until queues are steady: a few
    times the time per event in a closed loop, which is jobs / capacity above saturation. Raises FarmError if nothing is left
    to measure, or for a call of a model that no server hosts.
    """
    return simulate_mix(farm, (load,), seconds=seconds, warmup_s=warmup_s, seed=seed).loads[0]


def simulate_mix(farm: Farm, loads: Sequence[Load], *, seconds: float, warmup_s: float = 0.0, seed: int = 1) -> Mix:
    """Simulate `seconds` of a farm under several loads at the same time, as simulate() does."""
    if not (0 <= warmup_s < seconds and math.isfinite(seconds)):
        raise FarmError(
            f"a simulation of {seconds!r} s with a warm-up of {warmup_s!r} s; expected finite seconds, and a warm-up of 0 or "
            "more that is shorter: change one of them"
        )
    check_count(1, loads=len(loads))
    check_hosts(farm, (call.model for load in loads for call in load.calls))
    clock, shared = Clock(), Meter(seconds, warmup_s)
    network = Network(farm, clock, shared, seed)
    for machine in network.machines:
        if machine.server.turns:
            Table(machine.server, machine.server.turns, machine.stations, clock)
    meters = [shared if len(loads) == 1 else Meter(seconds, warmup_s) for _ in loads]
    crowds = []
    for index, (load, meter) in enumerate(zip(loads, meters, strict=True)):
        own_seed = f"{seed} {index}" if index else str(seed)
        clients = Clients(network, load, clock, meter, own_seed)
        crowds.append(clients)
        if isinstance(load, ClosedLoop):
            Jobs(load, clients, clock, meter, own_seed)
        else:
            Arrivals(load, clients, clock, meter, own_seed)
    clock.run(seconds)
    for machine in network.machines:
        for station in machine.stations.values():
            station.close()
    results = [_result(clients, meter, shared) for clients, meter in zip(crowds, meters, strict=True)]
    return Mix(tuple(results), tuple(_use(machine, shared) for machine in network.machines), _proxy_use(network, shared))


def _result(clients: Clients, meter: Meter, shared: Meter) -> Result:
    """Return the result of one load.

    Args:
        shared: the meter of the servers.
    """
    measured_s = meter.seconds - meter.warmup_s
    event, call, queue = (spread(waits) for waits in (meter.event_waits, meter.call_waits, meter.queue_waits))
    requests, attempts = sum(meter.requests), sum(meter.attempts)
    return Result(
        measured_s=measured_s,
        throughput_per_s=meter.finished / measured_s,
        goodput_per_s=call.count / measured_s,
        refused_per_s=meter.measured_refused / measured_s,
        events_per_s=meter.events / measured_s,
        event_s=event,
        call_s=call,
        queue_s=queue,
        model_s={model: spread(waits) for model, waits in meter.model_waits.items()},
        attempts_per_request=attempts / requests if requests else 0.0,
        refused_share=meter.measured_refused / meter.measured_ended if meter.measured_ended else 0.0,
        queue_ms_per_execution=1000 * queue.mean_s * queue.count / shared.measured_runs if shared.measured_runs else 0.0,
        requests_per_execution=meter.finished / shared.measured_runs if shared.measured_runs else 0.0,
        utilisation=_utilisation(clients.network, shared, measured_s),
        counts=Counts(
            requests=requests,
            attempts=attempts,
            answered=sum(meter.answers),
            refused=meter.refused,
            expired=meter.expired,
            unfinished=clients.unfinished,
            wasted=meter.wasted,
            dropped=sum(station.queue.dropped for machine in clients.network.machines for station in machine.stations.values()),
        ),
        series=meter.series(),
    )


def _use(machine: Machine, meter: Meter) -> ServerUse:
    measured_s = meter.seconds - meter.warmup_s
    return ServerUse(
        link_requests=machine.up.shares.busy_s / measured_s,
        link_answers=machine.down.shares.busy_s / measured_s,
        cpu=machine.cores.shares.busy_s / machine.cores.count / measured_s,
        transfers=machine.transfers.shares.busy_s / machine.transfers.count / measured_s,
        units={name: each.busy.busy_s / len(each.units) / measured_s for name, each in machine.stations.items()},
        present={name: each.present.busy_s / len(each.units) / measured_s for name, each in machine.stations.items()},
    )


def _proxy_use(network: Network, meter: Meter) -> float:
    """The share of time for which the busiest part of the proxies works, 0 without one."""
    measured_s = meter.seconds - meter.warmup_s
    busy_s = [
        (relay.up.shares.busy_s, relay.down.shares.busy_s, relay.cores.shares.busy_s / relay.cores.count)
        for relay in network.relays
    ]
    return max((_mean(part) for part in zip(*busy_s, strict=True)), default=0.0) / measured_s


def _utilisation(network: Network, meter: Meter, measured_s: float) -> Utilisation:
    machines, in_service_s = network.machines, meter.units_in_service.busy_s
    return Utilisation(
        link_requests=network.up.shares.busy_s / measured_s,
        link_answers=network.down.shares.busy_s / measured_s,
        server_link_requests=_mean(machine.up.shares.busy_s for machine in machines) / measured_s,
        server_link_answers=_mean(machine.down.shares.busy_s for machine in machines) / measured_s,
        server_cpu=_mean(machine.cores.shares.busy_s / machine.cores.count for machine in machines) / measured_s,
        units=meter.units_busy.busy_s / in_service_s if in_service_s else 0.0,
    )


def _mean(values: Iterable[float]) -> float:
    """Return the mean of a value of each server; there is at least one."""
    listed = list(values)
    return math.fsum(listed) / len(listed)
