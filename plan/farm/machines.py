# SPDX-License-Identifier: Apache-2.0
"""The machines of a farm: links, servers with their cards, failures, and how calls are spread over servers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hypersonic.plan.farm.batching import Batching
from hypersonic.plan.farm.errors import FarmError, check_count, check_not_negative, check_positive
from hypersonic.plan.farm.service import NO_TIME, ServiceTime
from hypersonic.plan.farm.turns import Turns


@dataclass(frozen=True)
class Link:
    """A full-duplex link: requests share one direction and answers the other, each in FIFO order.

    Attributes:
        bits_per_s: in each direction; infinite = the link never binds.
        delay_s: one-way propagation delay.
        background_bits_per_s: other traffic in each direction, which lowers the rate. Bytes that cross two links are pipelined,
            as packets are: the second link starts when the first byte arrives.
    """

    bits_per_s: float = math.inf
    delay_s: float = 0.0
    background_bits_per_s: float = 0.0

    def __post_init__(self) -> None:
        check_positive(bits_per_s=self.bits_per_s)
        check_not_negative(delay_s=self.delay_s, background_bits_per_s=self.background_bits_per_s)
        if self.background_bits_per_s >= self.bits_per_s:
            raise FarmError(
                f"background traffic of {self.background_bits_per_s:g} bits/s fills a link of {self.bits_per_s:g} bits/s; "
                "expected less, so that calls can pass: give a faster link or less traffic"
            )

    @property
    def free_bits_per_s(self) -> float:
        """The rate that the background traffic leaves, in bits per second."""
        return self.bits_per_s - self.background_bits_per_s


@dataclass(frozen=True)
class Hosted:
    """A model on the cards of a server, with compute units of its own.

    Attributes:
        service: of one execution on one compute unit, as a function of its rows. It includes transfers that do not overlap; if
            they overlap, the time per row is the largest of clocks, PCIe and memory bank.
        units_per_card: all units of a server's cards serve one queue.
        batching: None = each request is an execution of its own.
        slots_per_unit: executions that are formed ahead for a unit, the running one included.
        queue_limit: most requests that wait in the queue (not in slots); the next is refused; 0 = no limit.
        model: its name, by which calls find it.
        transfer: how long a call occupies the link between host and card, which all models of a card share. It comes before the
            queue, so it overlaps with other executions.
        xclbin: models with equal ones are on a card together; "" = one of its own. Only models that take turns need it.
        load_s: how long its xclbin takes to load.
        request_cpu: the time that one of the server's cores works on a request before it is queued.
    """

    service: ServiceTime
    units_per_card: int = 1
    batching: Batching | None = None
    slots_per_unit: int = 1
    queue_limit: int = 0
    model: str = ""
    transfer: ServiceTime = NO_TIME
    xclbin: str = ""
    load_s: float = 0.0
    request_cpu: ServiceTime = NO_TIME

    def __post_init__(self) -> None:
        check_count(1, units_per_card=self.units_per_card, slots_per_unit=self.slots_per_unit)
        check_count(0, queue_limit=self.queue_limit)
        check_not_negative(load_s=self.load_s)


@dataclass(frozen=True)
class Server(Hosted):
    """A server with its cards, and the model on them; further models are `others`.

    A request that has been received costs its bytes and its processor time even if it is then refused. admission_limit is
    checked before that: the most calls in progress on the server, from the first byte of the request to the last byte of the
    answer; the next is refused after one round trip; 0 = no limit.

    A request whose deadline has passed leaves the queue without an execution, because gRPC cancels it on the server too.

    Attributes:
        cards: on each of them all models have their units, unless they take turns.
        link: between the site's link and this server.
        cpu_cores: its cores.
        lock_s: the part of each request's processor time in which no other request is worked on, whatever the cores.
        others: further models on the same cards.
        turns: None = all models are on all cards at the same time.
    """

    cards: int = 1
    link: Link = Link()
    cpu_cores: int = 1
    lock_s: float = 0.0
    admission_limit: int = 0
    others: tuple[Hosted, ...] = ()
    turns: Turns | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(1, cards=self.cards, cpu_cores=self.cpu_cores)
        check_count(0, admission_limit=self.admission_limit)
        check_not_negative(lock_s=self.lock_s)
        names = [each.model for each in self.hosted]
        if len({*names}) < len(names):
            raise FarmError(f"a server hosts the models {names}, expected different names; give each model once")

    @property
    def hosted(self) -> tuple[Hosted, ...]:
        """All models."""
        return (self, *self.others)

    @property
    def units(self) -> int:
        """The number of compute units of all cards, of its first model."""
        return self.cards * self.units_per_card

    @property
    def xclbins(self) -> dict[str, tuple[Hosted, ...]]:
        """The models by xclbin."""
        names = list(dict.fromkeys(each.xclbin or each.model for each in self.hosted))
        return {name: tuple(each for each in self.hosted if (each.xclbin or each.model) == name) for name in names}


@dataclass(frozen=True)
class Proxy:
    """Proxies such as Envoy between the site's link and the servers, each on a machine of its own; calls take turns on them.

    Attributes:
        count: proxies.
        link: of one of them, which a request crosses before its server's, and an answer after it.
        cpu_cores, request_cpu: the cores of one, and the time that one core works on a request and its answer.
    """

    count: int = 1
    link: Link = Link()
    cpu_cores: int = 1
    request_cpu: ServiceTime = NO_TIME

    def __post_init__(self) -> None:
        check_count(1, count=self.count, cpu_cores=self.cpu_cores)


@dataclass(frozen=True)
class Failure:
    """A card that fails.

    Executions on the card are lost. Their requests, at the head of the queue again, are executed on another card of the server;
    if it has none left, these and all that wait fail, and so does each later call until the balancer takes the server out.

    Attributes:
        server, card: indices from 0.
        at_s: when, in simulated seconds.
        returns_s: when it is back in service, infinite = never.
    """

    server: int
    card: int
    at_s: float
    returns_s: float = math.inf

    def __post_init__(self) -> None:
        check_count(0, server=self.server, card=self.card)
        check_not_negative(at_s=self.at_s)
        if not self.returns_s > self.at_s:
            raise FarmError(f"a card that fails at {self.at_s:g} s returns at {self.returns_s:g} s, expected a later time")


@dataclass(frozen=True)
class Farm:
    """Servers behind one link and one balancer.

    Of two servers with a card in service, taken at random, a call goes to the one with fewer calls in flight (Envoy's
    LEAST_REQUEST).

    Attributes:
        link: the site's, which all calls share.
        detection_s: how long the balancer still sends calls to a server without a card in service, and none to a server that
            has one again (the interval of health checks).
        proxy: None = jobs call the servers directly.
    """

    servers: tuple[Server, ...]
    link: Link = Link()
    failures: tuple[Failure, ...] = ()
    detection_s: float = 1.0
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        check_count(1, servers=len(self.servers))
        check_not_negative(detection_s=self.detection_s)
        for failure in self.failures:
            if failure.server >= len(self.servers) or failure.card >= self.servers[failure.server].cards:
                raise FarmError(
                    f"card {failure.card} of server {failure.server} fails, but there are {len(self.servers)} servers, with "
                    f"{sorted({server.cards for server in self.servers})} cards each; indices begin at 0"
                )
            if self.servers[failure.server].turns:
                raise FarmError(
                    f"a card of server {failure.server} fails, whose models take turns; expected a server without turns: leave "
                    "the card out of its cards"
                )

    @property
    def units(self) -> int:
        """The number of compute units of all servers."""
        return sum(server.units for server in self.servers)


def check_hosts(farm: Farm, models: Iterable[str]) -> None:
    """Raise FarmError for a model that no server hosts."""
    hosted = {each.model for server in farm.servers for each in server.hosted}
    for model in models:
        if model not in hosted:
            raise FarmError(f"a call is for model {model!r}, expected one of {sorted(hosted)}; host it on a server")
