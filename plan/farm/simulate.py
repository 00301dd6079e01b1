# SPDX-License-Identifier: Apache-2.0
"""Simulate a farm under a load."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hypersonic.plan.farm.engine.clients import Clients
from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.drivers import Arrivals, Jobs
from hypersonic.plan.farm.engine.meter import Meter, spread
from hypersonic.plan.farm.engine.network import Network
from hypersonic.plan.farm.errors import FarmError
from hypersonic.plan.farm.loads import ClosedLoop, Load
from hypersonic.plan.farm.machines import Farm
from hypersonic.plan.farm.result import Counts, Result, Utilisation


def simulate(farm: Farm, load: Load, *, seconds: float, warmup_s: float = 0.0, seed: int = 1) -> Result:
    """Simulate `seconds` of a farm under a load; measure from `warmup_s` on.

    The same arguments give the same result, to the last bit. The warm-up has to last until queues are steady: a few
    times the time per event in a closed loop, which is jobs / capacity above saturation. Raises FarmError if nothing is left
    to measure.
    """
    if not (0 <= warmup_s < seconds and math.isfinite(seconds)):
        raise FarmError(
            f"a simulation of {seconds!r} s with a warm-up of {warmup_s!r} s; expected finite seconds, and a warm-up of 0 or "
            "more that is shorter: change one of them"
        )
    clock, meter = Clock(), Meter(seconds, warmup_s)
    if isinstance(load, ClosedLoop):
        clients = Clients(farm, load, load.jobs, clock, meter, seed)
        Jobs(load, clients, clock, meter, seed)
    else:
        clients = Clients(farm, load, load.clients, clock, meter, seed)
        Arrivals(load, clients, clock, seed)
    clock.run(seconds)
    for machine in clients.network.machines:
        machine.station.close()
    return _result(clients, meter)


def _result(clients: Clients, meter: Meter) -> Result:
    measured_s = meter.seconds - meter.warmup_s
    event, call, queue = (spread(waits) for waits in (meter.event_waits, meter.call_waits, meter.queue_waits))
    requests, attempts = sum(meter.requests), sum(meter.attempts)
    return Result(
        measured_s=measured_s,
        throughput_per_s=meter.finished / measured_s,
        goodput_per_s=call.count / measured_s,
        events_per_s=meter.events / measured_s,
        event_s=event,
        call_s=call,
        queue_s=queue,
        attempts_per_request=attempts / requests if requests else 0.0,
        refused_share=meter.measured_refused / meter.measured_ended if meter.measured_ended else 0.0,
        queue_ms_per_execution=1000 * queue.mean_s * queue.count / meter.measured_runs if meter.measured_runs else 0.0,
        requests_per_execution=meter.finished / meter.measured_runs if meter.measured_runs else 0.0,
        utilisation=_utilisation(clients.network, meter, measured_s),
        counts=Counts(
            requests=requests,
            attempts=attempts,
            answered=sum(meter.answers),
            refused=meter.refused,
            expired=meter.expired,
            unfinished=clients.unfinished,
            wasted=meter.wasted,
            dropped=sum(machine.station.queue.dropped for machine in clients.network.machines),
        ),
        series=meter.series(),
    )


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
