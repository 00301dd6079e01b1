# SPDX-License-Identifier: Apache-2.0
"""The shared parts of a farm as stations, and the way of a call through them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hypersonic.plan.farm import Call, Farm, Hosted, Link, Server, ServiceTime
from hypersonic.plan.mix.queues import mean_wait_s


@dataclass(eq=False)
class Station:
    """Equal shared parts, such as the links of all servers of a kind.

    Attributes:
        name: in words.
        copies: how many there are, each with a queue of its own.
        servers: that serve the queue of one.
        times_s: mean service time of each call that comes here.
        cv2: squared coefficient of variation of one call's service time.
        kind: the index of its servers' kind, -1 for a part of the site.
        limit: most waiting requests, 0 = no limit.
        round_s, away_s: of models that take turns: the length of a round, and how long they are on no card in it.
        wait_s, refused: the mean wait, and the share of calls that find the queue full, as far as they are known.
        arrivals_cv2: of the times between arrivals.
        factor: by which the balancer changes the wait.
    """

    name: str
    copies: int
    servers: int
    times_s: Mapping[Call, float]
    cv2: float = 0.0
    kind: int = -1
    limit: int = 0
    round_s: float = math.inf
    away_s: float = 0.0
    wait_s: float = 0.0
    refused: float = 0.0
    arrivals_cv2: float = 1.0
    factor: float = 1.0

    @property
    def present(self) -> float:
        """The share of time for which it serves."""
        return 1 - self.away_s / self.round_s

    def load(self, rates: Mapping[Call, float]) -> float:
        """Return the share of the time for which it serves that it is busy; above 1 it cannot serve these calls.

        Args:
            rates: calls per second, of all copies.
        """
        demand = sum(rates.get(call, 0.0) * time_s for call, time_s in self.times_s.items())
        return demand / (self.copies * self.servers * self.present)

    def service(self, rates: Mapping[Call, float]) -> tuple[float, float]:
        """Return the mean service time of a mixture of calls, and its squared coefficient of variation."""
        total = sum(rates.get(call, 0.0) for call in self.times_s)
        if not total:
            return 0.0, 0.0
        mean_s = sum(rates.get(call, 0.0) * time_s for call, time_s in self.times_s.items()) / total
        square = sum(rates.get(call, 0.0) * time_s * time_s for call, time_s in self.times_s.items()) / total
        return mean_s, (1 + self.cv2) * square / mean_s**2 - 1 if mean_s else 0.0

    def wait_for(self, rates: Mapping[Call, float], *, at_random: bool = True) -> float:
        """Return the mean wait with these calls; infinite if they are too many.

        Args:
            at_random: False for those of jobs, which are not more in one round than in another.
        """
        load, (mean_s, _) = self.load(rates), self.service(rates)
        if not mean_s:
            return 0.0
        if load >= 1:
            return math.inf
        if not self.away_s:
            return self.variation(rates) * mean_wait_s(load, mean_s, self.servers)
        each: float = sum(rates.get(call, 0.0) for call in self.times_s) / self.copies
        left_over_s = load * load / (2 * each * (1 - load)) if at_random else 0.0
        return self.away_s * self.away_s / (2 * self.round_s * (1 - load * self.present)) + left_over_s

    def variation(self, rates: Mapping[Call, float], less: float = 0.0) -> float:
        """Return the wait over that of M/M/c, of arrivals and services as they vary, and of the balancer.

        Args:
            less: by how much the arrivals vary less than arrivals_cv2.
        """
        return max(0.0, self.factor * (max(0.0, self.arrivals_cv2 - less) + self.service(rates)[1]) / 2)


@dataclass(frozen=True)
class Group:
    """Equal servers.

    Attributes:
        ahead: the stations of a call before the queue, in order, and `units` by model: the one after it.
        back: the stations of an answer.
    """

    server: Server
    count: int
    ahead: tuple[Station, ...]
    units: Mapping[str, Station]
    back: tuple[Station, ...]

    def hosts(self, model: str) -> bool:
        """Return whether it has the model."""
        return model in self.units


@dataclass(frozen=True)
class Layout:
    """All stations of a farm.

    Attributes:
        ahead, back: those of the site and its proxies, before the servers and after them.
        calls: all that are made.
    """

    farm: Farm
    ahead: tuple[Station, ...]
    back: tuple[Station, ...]
    groups: tuple[Group, ...]
    calls: tuple[Call, ...] = field(default=())

    @property
    def stations(self) -> Iterator[Station]:
        """All of them."""
        yield from (*self.ahead, *self.back)
        for group in self.groups:
            yield from (*group.ahead, *group.units.values(), *group.back)

    def fixed_s(self, group: Group, call: Call) -> float:
        """Return the time of a call when nothing queues: delays, transfers through the slowest link, and services."""
        farm, server = self.farm, group.server
        links: list[Link] = [farm.link, server.link, *([farm.proxy.link] if farm.proxy else ())]
        bit_s = max(1 / link.free_bits_per_s for link in links)
        hosted = next(each for each in server.hosted if each.model == call.model)
        services: list[ServiceTime] = [hosted.request_cpu, hosted.transfer, hosted.service]
        if farm.proxy:
            services.append(farm.proxy.request_cpu)
        times_s = [2 * link.delay_s for link in links] + [service.mean_s(call.rows) for service in services]
        return math.fsum(times_s) + 8 * (call.request_bytes + call.answer_bytes) * bit_s


def lay_out(farm: Farm, calls: Sequence[Call], names: Sequence[str]) -> Layout:
    """Return the stations of a farm.

    Args:
        names: of the servers; equal servers have equal ones.
    """
    ahead, back = _wires("site", farm.link, 1, calls, -1)
    if farm.proxy:
        proxy, count = farm.proxy, farm.proxy.count
        there, here = _wires("proxies", proxy.link, count, calls, -1)
        ahead, back = [*ahead, *there], [*here, *back]
        ahead += _served("proxies: cores", proxy.request_cpu, count, proxy.cpu_cores, calls, -1)
    groups = []
    counted = Counter(zip(names, farm.servers, strict=True))
    for index, ((name, server), count) in enumerate(counted.items()):
        groups.append(_group(name, server, count, calls, index))
    return Layout(farm, tuple(ahead), tuple(back), tuple(groups), tuple(calls))


def _group(name: str, server: Server, count: int, calls: Sequence[Call], index: int) -> Group:
    models = {each.model for each in server.hosted}
    here = [call for call in calls if call.model in models]
    ahead, back = _wires(name, server.link, count, here, index)
    hosted = {each.model: each for each in server.hosted}
    cpu = {call: hosted[call.model].request_cpu.mean_s(call.rows) for call in here}
    lock = {call: server.lock_s for call in here if cpu[call]}
    transfers = {call: hosted[call.model].transfer.mean_s(call.rows) for call in here}
    shared = (
        ("cores", server.cpu_cores, cpu, server.request_cpu.cv2), ("process", 1, lock, 0.0),
        ("card's link", server.cards, transfers, 0.0),
    )  # fmt: skip
    for part, servers, times, cv2 in shared:
        if any(times.values()):
            ahead.append(Station(f"{name}: {part}", count, servers, times, cv2, index))
    units = {each.model: _units(name, server, each, count, here, index) for each in server.hosted}
    return Group(server, count, tuple(ahead), units, tuple(back))


def _units(name: str, server: Server, hosted: Hosted, count: int, calls: Sequence[Call], index: int) -> Station:
    times = {call: hosted.service.mean_s(call.rows) for call in calls if call.model == hosted.model}
    cards, round_s, away_s = server.cards, math.inf, 0.0
    if server.turns:
        xclbins = list(server.xclbins.values())
        load_s = sum(max(each.load_s for each in models) for models in xclbins) / len(xclbins)
        cards, (round_s, away_s) = 1, server.turns.times_s(len(xclbins), server.cards, load_s)
    return Station(
        f"{name}: {hosted.model or 'units'}", count, cards * hosted.units_per_card, times, hosted.service.cv2, index,
        hosted.queue_limit, round_s, away_s,
    )  # fmt: skip


def _wires(name: str, link: Link, count: int, calls: Sequence[Call], index: int) -> tuple[list[Station], list[Station]]:
    """Return the two directions of a link, if it can limit."""
    if not math.isfinite(link.bits_per_s):
        return [], []
    sizes = [{call: 8 * call.request_bytes for call in calls}, {call: 8 * call.answer_bytes for call in calls}]
    there, here = (
        [Station(f"{name}: link, {what}", count, 1, {c: bits / link.free_bits_per_s for c, bits in size.items()}, kind=index)]
        for what, size in zip(("requests", "answers"), sizes, strict=True)
    )
    return there, here


def _served(name: str, service: ServiceTime, count: int, cores: int, calls: Sequence[Call], index: int) -> list[Station]:
    times = {call: service.mean_s(call.rows) for call in calls}
    return [Station(name, count, cores, times, service.cv2, index)] if any(times.values()) else []
