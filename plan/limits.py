# SPDX-License-Identifier: Apache-2.0
"""The capacity of each shared part of a site, the number of cards that a load needs, and the time of an unqueued event."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hypersonic.firmware.estimate.rates import CARD, CardRate, alone_s, card_rate, least_clocks
from hypersonic.firmware.estimate.rates import Limit as PartLimit
from hypersonic.firmware.platform import find_platform
from hypersonic.plan.inputs import Basis, Mark, Question, Service
from hypersonic.plan.law import saturation_jobs, throughput


@dataclass(frozen=True)
class Limit:
    """The capacity of one part for the whole site.

    Attributes:
        part: its name.
        what: the figures it follows from.
        scope: `card` or `server`, of which more would raise it, or `site`.
    """

    part: str
    events_per_s: float
    what: str
    mark: Mark
    scope: str


@dataclass(frozen=True)
class Unqueued:
    """The time of an event when nothing queues, in seconds: t_ideal = own + calls * call.

    Attributes:
        own_s: the job's own work.
        network_s: round trip and transfers of one call.
        server_s: processor time of one request.
        card_s: PCIe, kernel and back.
        service_s: the part of card_s that one execution occupies a compute unit for.
    """

    own_s: float
    calls: float
    network_s: float
    server_s: float
    card_s: float
    service_s: float

    @property
    def call_s(self) -> float:
        """The time from a request to its answer."""
        return self.network_s + self.server_s + self.card_s

    @property
    def ideal_s(self) -> float:
        """t_ideal of the law."""
        return self.own_s + self.calls * self.call_s


@dataclass(frozen=True)
class Capacity:
    """The capacities of a site with given numbers of cards and servers.

    Attributes:
        limits: the lowest first.
    """

    cards: int
    servers: int
    limits: tuple[Limit, ...]
    unqueued: Unqueued

    @property
    def binding(self) -> Limit:
        """The lowest limit."""
        return self.limits[0]

    @property
    def events_per_s(self) -> float:
        """The site's capacity in events per second."""
        return self.binding.events_per_s

    @property
    def jobs(self) -> float:
        """N*, the number of jobs that reach the capacity."""
        return saturation_jobs(self.unqueued.ideal_s, [limit.events_per_s for limit in self.limits])

    def rate(self, jobs: float) -> float:
        """Return the law's rate for that many jobs, in events per second."""
        return throughput(jobs, self.unqueued.ideal_s, [limit.events_per_s for limit in self.limits])


def event_bytes(question: Question) -> tuple[int, int]:
    """Return the bytes of an event's requests and of its answers."""
    rows = round(question.workload.rows * question.workload.calls)
    return rows * question.model.input_bytes, rows * question.model.output_bytes


def card_of(question: Question) -> CardRate:
    """Return the predicted rate of one card in one server (firmware/estimate/rates.py). Raises PlatformError."""
    model, site = question.model, question.site
    clocks = max(model.ii, least_clocks(1, model.row_bytes)) * question.workload.rows * question.workload.calls
    return card_rate(
        find_platform(site.platform), clocks, event_bytes(question), units=model.units,
        network_gbps=site.server_gbps, kernel_mhz=site.kernel_mhz,
    )  # fmt: skip


def capacity_of(question: Question, cards: int) -> Capacity:
    """Return the capacities of a site with `cards` cards, filled server by server. Raises PlatformError."""
    servers = math.ceil(cards / question.site.cards_per_server)
    limits = [*_of_cards(question, cards), *_of_servers(question, servers), *_of_site(question)]
    return Capacity(cards, servers, tuple(sorted(limits, key=lambda limit: limit.events_per_s)), unqueued(question))


def cards_for(question: Question, events_per_s: float) -> int:
    """Return the fewest cards whose capacity, times the headroom, is `events_per_s`; 0 if a limit of the site is below it."""
    needed, per_server = 1, question.site.cards_per_server
    for limit in capacity_of(question, 1).limits:
        share = events_per_s / (limit.events_per_s * question.target.headroom)
        count = math.ceil(share - 1e-9)
        if limit.scope == "site" and count > 1:
            return 0
        needed = max(needed, count if limit.scope == "card" else 1 + (count - 1) * per_server if limit.scope == "server" else 1)
    return needed


def required_rate(question: Question) -> float:
    """Return the events per second that the site has to serve: those that are asked for, or jobs / t_ideal."""
    work = question.workload
    return work.events_per_s or work.jobs / unqueued(question).ideal_s


def unqueued(question: Question) -> Unqueued:
    """Return the time of an event when nothing queues; bytes cross the slower of the links once. Raises PlatformError."""
    work, site, model = question.workload, question.site, question.model
    gbps = min(site.server_gbps, site.switch_gbps - site.background_gbps if site.switch_gbps else math.inf)
    network_s = site.rtt_ms / 1e3 + work.rows * sum(model.row_bytes) * 8 / (gbps * 1e9)
    if model.measured:
        service_s = execution_s(model.measured, work.rows)
        card_s = service_s + model.measured.transfer_s * work.rows * model.measured.requests / model.measured.rows
    else:
        service_s = units_at_work(question)[1] * work.rows
        alone = _with_one_unit(question)
        kernel_s = 1 / (card_of(alone).of("kernel") * work.calls)
        call_bytes = work.rows * model.input_bytes, work.rows * model.output_bytes
        steps_s = alone_s(find_platform(site.platform), kernel_s, call_bytes)
        card_s = max(_card_row_s(alone) * work.rows, steps_s)
    return Unqueued(work.own_s, work.calls, network_s, question.request_cpu_s, card_s, service_s)


def units_at_work(question: Question) -> tuple[int, float]:
    """Return the compute units of a card that can work at the same time, and the seconds for which a row occupies one.

    They are fewer than the card has if PCIe or the memory bank limits it; transfers overlap with other runs.
    """
    alone = _card_row_s(_with_one_unit(question))
    together = _card_row_s(question)
    units = max(1, math.floor(alone / together + 1e-9))
    return units, units * together


def _with_one_unit(question: Question) -> Question:
    return replace(question, model=replace(question.model, units=1))


def _card_row_s(question: Question) -> float:
    """Return the seconds between two rows of a card that is always busy."""
    work = question.workload
    slowest = min(limit.events_per_s for limit in card_of(question).limits if limit.part != "network")
    return 1 / (slowest * work.rows * work.calls)


def execution_s(measured: Service, rows: int) -> float:
    """Return the mean time of an execution for one request of `rows` rows, in proportion to the rows that were measured."""
    return measured.mean_s * rows / measured.rows


def _of_cards(question: Question, cards: int) -> list[Limit]:
    model, work = question.model, question.workload
    if model.measured:
        rate = cards * model.units / (execution_s(model.measured, work.rows) * work.calls)
        units = cards * model.units
        what = (
            f"{1e3 * model.measured.mean_s:.3g} ms for {model.measured.rows:,.0f} rows, {units} compute unit{'s' * (units > 1)}"
        )
        mark = question.mark("model.service_ms" if model.service_ms else "model.metrics")
        return [Limit("compute units", rate, what, mark, "card")]
    file, each_of = f"platforms/{question.site.platform}.toml", f", {cards} cards" if cards > 1 else ""
    assumed, clock = Mark(Basis.ASSUMED, file), question.mark("site.kernel_mhz")
    return [
        Limit(
            name, cards * each.events_per_s, each.what + each_of,
            clock if name == "kernel" else Mark(Basis(each.known), each.source) if each.source else assumed, "card",
        )
        for name, each in _parts(card_of(question)).items()
    ]  # fmt: skip


def _parts(rate: CardRate) -> dict[str, PartLimit]:
    """The limits of a card's parts by name. Where all parts together are slower than any alone, the part that limits them has
    their rate."""
    parts = {each.part: each for each in rate.limits if each.part not in ("network", CARD)}
    card = next(each for each in rate.limits if each.part == CARD)
    slower = card.events_per_s < min(each.events_per_s for each in parts.values())
    return {**parts, rate.card_limit: card} if slower else parts


def _of_servers(question: Question, servers: int) -> list[Limit]:
    site, work = question.site, question.workload
    each = f", {servers} servers" if servers > 1 else ""
    network = servers * site.server_gbps * 1e9 / 8 / max(event_bytes(question))
    limits = [Limit("network", network, f"{site.server_gbps:g} Gb/s{each}", question.mark("site.server_gbps"), "server")]
    cpu = servers * site.cores / (work.calls * question.request_cpu_s)
    what = f"{site.cores} cores, {1e3 * question.request_cpu_s:.3g} ms a request{each}"
    limits.append(Limit("server CPU", cpu, what, question.mark("site.request_cpu_ms"), "server"))
    if site.lock_s:
        what = f"one process, {1e3 * site.lock_s:.3g} ms of its lock a request{each}"
        mark = Mark(Basis.ASSUMED, f"site.server is {site.server}")
        limits.append(Limit("Python process", servers / (work.calls * site.lock_s), what, mark, "server"))
    return limits


def _of_site(question: Question) -> list[Limit]:
    site = question.site
    if not site.switch_gbps:
        return []
    free = site.switch_gbps - site.background_gbps
    less = f" less {site.background_gbps:g} of other traffic" if site.background_gbps else ""
    rate = free * 1e9 / 8 / max(event_bytes(question))
    return [Limit("site switch", rate, f"{site.switch_gbps:g} Gb/s{less}", question.mark("site.switch_gbps"), "site")]
