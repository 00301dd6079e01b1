# SPDX-License-Identifier: Apache-2.0
"""A farm as a file describes it: models, pools of cards, workloads and the site; and the Farm and the loads that follow.

A pool is a number of cards of one kind in servers of one kind. All its models are on each of its cards, or they take turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from hypersonic.plan.errors import PlanError
from hypersonic.plan.farm import (
    Call,
    ClosedLoop,
    Constant,
    Farm,
    Histogram,
    Hosted,
    Linear,
    Link,
    Load,
    OpenLoop,
    Proxy,
    Server,
    ServiceTime,
    TurnRule,
    Turns,
)
from hypersonic.plan.farm.service import NO_TIME
from hypersonic.plan.inputs import RULES, ModelCost, OwnWork, Question, Rule, Site, Target, Workload
from hypersonic.plan.limits import card_of, execution_s
from hypersonic.plan.server_cost import PYTHON

#: the least own work of a job, for loads that do nothing but call
_LEAST_S = 1e-6


@dataclass(frozen=True)
class PlannedModel:
    """A model.

    Attributes:
        cost: of a row; with `service_ms` or `measured`, of a call.
        rows: of a call, unless a workload says otherwise.
        queue_limit: most requests that wait on a server, 0 = no limit; the next is refused.
        load_s: time to load its xclbin.
        xclbin: models with equal ones share a card when models take turns.
    """

    cost: ModelCost
    rows: int = 1
    queue_limit: int = 0
    load_s: float = 2.0
    xclbin: str = ""


@dataclass(frozen=True)
class Pool:
    """Cards of one kind in servers of one kind.

    Attributes:
        platform, cards_per_server, kernel_mhz, server_gbps, server, cores, request_cpu_ms: as in Site.
        cards: that calls use, those that have failed included.
        spares: cards beside them, each of which takes the place of a failed one.
        failed: cards that have failed.
        models: on its cards.
        turns: the models take turns, one xclbin on a card at a time.
        residency_s: how long models stay on a card at least.
        costs: by model, what differs on these cards: ii, units and service_ms.
    """

    cards: int
    models: tuple[str, ...]
    platform: str = "u250"
    cards_per_server: int = 1
    spares: int = 0
    failed: int = 0
    kernel_mhz: float = 0.0
    server_gbps: float = 25.0
    server: str = PYTHON
    cores: int = 16
    request_cpu_ms: float = 0.0
    turns: bool = False
    residency_s: float = 5.0
    costs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def in_service(self) -> int:
        """The cards that serve."""
        return self.cards - max(0, self.failed - self.spares)

    @property
    def filling(self) -> Iterator[int]:
        """The cards in service of each server. Failed ones are spread over the servers; a server without cards is left out."""
        servers = math.ceil(self.cards / self.cards_per_server)
        full = [min(self.cards_per_server, self.cards - index * self.cards_per_server) for index in range(servers)]
        missing, index = self.cards - self.in_service, 0
        while missing:
            if full[index % servers]:
                full[index % servers] -= 1
                missing -= 1
            index += 1
        return (cards for cards in full if cards)


@dataclass(frozen=True)
class JobClass(OwnWork):
    """Jobs of one class.

    Attributes:
        calls: of an event, in order: model, rows, and how often one after the other.
        jobs, events_per_s: one of them is above 0. Events arrive at events_per_s whether or not earlier ones are finished.
        cpu_s, share: as in OwnWork.
        in_flight: events that a job has begun; 1 = it waits for each answer, more = asynchronous calls.
    """

    calls: tuple[tuple[str, int, int], ...]
    jobs: int = 0
    events_per_s: float = 0.0
    cpu_s: float = 0.667
    share: float = 0.1
    in_flight: int = 1


@dataclass(frozen=True)
class Way:
    """The network between jobs and servers.

    Attributes:
        switch_gbps, background_gbps, rtt_ms: as in Site.
        envoys: proxies between jobs and servers, 0 = none.
        envoy_gbps: link of one of them.
        envoy_cores, envoy_cpu_ms: its cores, and a core's time for a request and its answer.
    """

    switch_gbps: float = 0.0
    background_gbps: float = 0.0
    rtt_ms: float = 0.5
    envoys: int = 0
    envoy_gbps: float = 100.0
    envoy_cores: int = 4
    envoy_cpu_ms: float = 0.2


@dataclass(frozen=True)
class Mixed:
    """A farm of several models or classes of jobs."""

    models: Mapping[str, PlannedModel]
    pools: Mapping[str, Pool]
    workloads: Mapping[str, JobClass]
    way: Way = field(default_factory=Way)
    target: Target = field(default_factory=Target)


#: section -> field -> its values, beside those of inputs.RULES
MIXED_RULES: Mapping[str, Mapping[str, Rule]] = {
    "models": {
        "rows": Rule(1, 1 << 31, whole=True),
        "queue_limit": Rule(0, 1_000_000, whole=True),
        "load_s": Rule(0, unit="seconds"),
    },
    "pools": {
        "cards": Rule(1, 10_000, whole=True),
        "spares": Rule(0, 10_000, whole=True),
        "failed": Rule(0, 10_000, whole=True),
        "residency_s": Rule(0, above=True, unit="seconds"),
    },
    "workloads": {"jobs": Rule(0, 1_000_000, whole=True), "in_flight": Rule(1, 1024, whole=True)},
    "cards": {name: RULES["model"][name] for name in ("ii", "units", "service_ms")},
    "calls": {"rows": Rule(1, 1 << 31, whole=True), "times": Rule(1, 10_000, whole=True)},
    "site": {
        "envoys": Rule(0, 10_000, whole=True),
        "envoy_gbps": Rule(0, above=True, unit="Gb/s"),
        "envoy_cores": Rule(1, 4096, whole=True),
        "envoy_cpu_ms": Rule(0, unit="milliseconds"),
    },
}


def farm_of(mixed: Mixed, rule: TurnRule | None) -> tuple[Farm, tuple[str, ...]]:
    """Return the farm, and for each of its servers the name of its pool. Raises PlanError, PlatformError.

    Args:
        rule: of models that take turns; only a simulation calls it.
    """
    servers, names = [], []
    for name, pool in mixed.pools.items():
        for cards in pool.filling:
            servers.append(_server(mixed, pool, cards, rule))
            names.append(name)
    if not servers:
        raise PlanError("all cards of the pools have failed, and no spares are left; expected at least one card in service")
    way = mixed.way
    link = Link(
        way.switch_gbps * 1e9 if way.switch_gbps else math.inf, way.rtt_ms / 2e3,
        way.background_gbps * 1e9 if way.switch_gbps else 0.0,
    )  # fmt: skip
    proxy = None
    if way.envoys:
        proxy = Proxy(way.envoys, Link(way.envoy_gbps * 1e9), way.envoy_cores, Constant(way.envoy_cpu_ms / 1e3))
    return Farm(tuple(servers), link, proxy=proxy), tuple(names)


def loads_of(mixed: Mixed) -> tuple[Load, ...]:
    """Return the loads of a farm, in the order of the workloads."""
    return tuple(_load(mixed, each) for each in mixed.workloads.values())


def _load(mixed: Mixed, work: JobClass) -> Load:
    calls = tuple(_call(mixed, model, rows) for model, rows, times in work.calls for _ in range(times))
    if work.events_per_s:
        return OpenLoop(work.events_per_s, calls)
    return ClosedLoop(work.jobs, max(_LEAST_S, work.own_s), calls, in_flight=work.in_flight)


def _call(mixed: Mixed, model: str, rows: int) -> Call:
    cost = mixed.models[model].cost
    return Call(rows, float(rows * cost.input_bytes), float(rows * cost.output_bytes), model)


def _server(mixed: Mixed, pool: Pool, cards: int, rule: TurnRule | None) -> Server:
    first, *others = (_hosted(mixed.models[model], model, pool) for model in pool.models)
    turns = Turns(rule, pool.residency_s) if pool.turns else None
    return Server(
        **{each.name: getattr(first, each.name) for each in fields(Hosted)},
        cards=cards, link=Link(pool.server_gbps * 1e9), cpu_cores=pool.cores, lock_s=_site(pool).lock_s,
        others=tuple(others), turns=turns,
    )  # fmt: skip


def _hosted(model: PlannedModel, name: str, pool: Pool) -> Hosted:
    """Return the model on the pool's cards: its kernel's time is that of a unit, PCIe and memory bank are shared."""
    model = replace(model, cost=replace(model.cost, **pool.costs.get(name, {})))
    service, transfer = _times(model, pool)
    return Hosted(
        service, model.cost.units, queue_limit=model.queue_limit, model=name, transfer=transfer, xclbin=model.xclbin,
        load_s=model.load_s, request_cpu=_site(pool).request_cpu(model.cost.input_bytes),
    )  # fmt: skip


def _site(pool: Pool) -> Site:
    """Return the pool as the servers of a farm of one model."""
    return Site(
        platform=pool.platform, kernel_mhz=pool.kernel_mhz, server_gbps=pool.server_gbps, server=pool.server,
        request_cpu_ms=pool.request_cpu_ms,
    )  # fmt: skip


def _times(model: PlannedModel, pool: Pool) -> tuple[ServiceTime, ServiceTime]:
    cost, rows = model.cost, model.rows
    if cost.service_ms:
        return Linear(0.0, cost.service_ms / 1e3 / rows), NO_TIME
    if cost.measured:
        times = Histogram(cost.measured.bounds_s, cost.measured.counts, execution_s(cost.measured, rows))
        return times, Constant(cost.measured.transfer_s)
    alone = Question(Workload(rows=rows), replace(cost, units=1), _site(pool), Target())
    rates = {limit.part: limit.events_per_s for limit in card_of(alone).limits}
    slowest = min(rate for part, rate in rates.items() if part not in ("kernel", "network"))
    return Linear(0.0, 1 / rates["kernel"] / rows), Linear(0.0, 1 / slowest / rows)
