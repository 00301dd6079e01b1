# SPDX-License-Identifier: Apache-2.0
"""Mixed farms, each with its loads, that are computed and simulated."""

from __future__ import annotations

from typing import Any

from hypersonic.commands.plan import server_turns
from hypersonic.plan.farm import (
    Call,
    ClosedLoop,
    Constant,
    Farm,
    Hosted,
    Linear,
    Link,
    Load,
    OpenLoop,
    Proxy,
    Server,
    Turns,
)
from tests.plan.farm.farms import Exponential

A, B, C = (Call(1, 0.0, 0.0, model) for model in "abc")
#: FACILE's, with FP32 rows
EVENT = Call(16_000, 1.152e6, 64e3, "a")


def server(service_s: float, *others: Hosted, **fields: Any) -> Server:
    """A server of model a."""
    return Server(Constant(service_s), model="a", others=others, **fields)


def also(model: str, service_s: float, **fields: Any) -> Hosted:
    """A further model of a server."""
    return Hosted(Constant(service_s), model=model, **fields)


def hlt(count: int, **fields: Any) -> Farm:
    """Servers of FACILE with links, cores and a card's link that take time."""
    one = Server(
        Linear(0.0, 1.2e-8), model="a", transfer=Linear(0.0, 0.4e-8), link=Link(25e9), cpu_cores=16, request_cpu=Constant(1e-3)
    )
    return Farm((one,) * count, **fields)


TURNS = Turns(server_turns, residency_s=5.0)

#: name -> farm and loads
FARMS: dict[str, tuple[Farm, tuple[Load, ...]]] = {
    "one model, open arrivals": (Farm((server(0.01),)), (OpenLoop(70.0, A),)),
    "two servers": (Farm((server(0.01),) * 2), (OpenLoop(140.0, A),)),
    "ten servers": (Farm((server(0.01),) * 10), (OpenLoop(700.0, A),)),
    "four servers with four cards each": (Farm((server(0.01, cards=4),) * 4), (OpenLoop(1280.0, A),)),
    "exponential times": (Farm((Server(Exponential(0.01), model="a", cards=3),)), (OpenLoop(200.0, A),)),
    "arrivals at constant times": (Farm((server(0.01),)), (OpenLoop(90.0, A, poisson=False),)),
    "cards of two kinds": (Farm((server(0.01),) * 2 + (server(0.02),) * 2), (OpenLoop(170.0, A),)),
    "cards of two kinds, overloaded by jobs": (Farm((server(0.01),) * 2 + (server(0.03),) * 2), (ClosedLoop(400, 1.0, A),)),
    "two models on a card, one after the other": (
        Farm((server(0.01, also("b", 0.015), cards=2),)), (OpenLoop(100.0, (A, B)), ClosedLoop(50, 1.0, A)),
    ),
    "three models, three loads": (
        Farm((server(0.01, also("b", 0.004), also("c", 0.02)),) * 3),
        (ClosedLoop(100, 0.6, (A, B)), ClosedLoop(20, 1.0, (C, C)), OpenLoop(60.0, B)),
    ),
    "two classes of jobs, overloaded": (
        Farm((server(0.01, also("b", 0.004)),) * 2), (ClosedLoop(300, 0.6, (A, B)), ClosedLoop(100, 1.0, A)),
    ),
    "a model on two pools, another on one": (
        Farm((server(0.01, also("b", 0.01)),) * 2 + (server(0.012),) * 2), (OpenLoop(150.0, A), ClosedLoop(40, 0.5, B)),
    ),
    "jobs below saturation": (Farm((server(0.01),)), (ClosedLoop(50, 1.0, A),)),
    "jobs at twice the saturation": (Farm((server(0.01),)), (ClosedLoop(200, 1.0, A),)),
    "jobs at forty times the saturation": (Farm((server(0.01),)), (ClosedLoop(4000, 1.0, A),)),
    "asynchronous jobs that hide their calls": (Farm((server(0.01),)), (ClosedLoop(20, 0.5, A, in_flight=2),)),
    "asynchronous jobs, overloaded": (Farm((server(0.02),)), (ClosedLoop(40, 0.5, A, in_flight=4),)),
    "asynchronous and synchronous jobs": (
        Farm((server(0.05, cards=4),)), (ClosedLoop(20, 0.5, A, in_flight=3), ClosedLoop(10, 1.0, A)),
    ),
    "links, cores and a card's link": (hlt(1), (OpenLoop(1900.0, EVENT),)),
    "a switch of the site": (hlt(3, link=Link(60e9, 0.00025)), (OpenLoop(5000.0, EVENT),)),
    "proxies": (hlt(3, proxy=Proxy(2, Link(40e9), 4, Constant(5e-4)), link=Link(delay_s=2.5e-4)), (OpenLoop(4800.0, EVENT),)),
    "proxies, overloaded by jobs": (hlt(3, proxy=Proxy(2, Link(20e9), 4, Constant(5e-4))), (ClosedLoop(4000, 0.6, EVENT),)),
    "models that take turns": (
        Farm((server(0.01, also("b", 0.02, load_s=2.0), load_s=2.0, turns=TURNS),)), (OpenLoop(20.0, A), OpenLoop(10.0, B)),
    ),
    "three models that take turns on two cards": (
        Farm((server(0.01, also("b", 0.02, load_s=2.0), also("c", 0.01, load_s=2.0), cards=2, load_s=2.0, turns=TURNS),)),
        (OpenLoop(20.0, A), OpenLoop(10.0, B), OpenLoop(20.0, C)),
    ),
    "models that take turns, overloaded by jobs": (
        Farm((server(0.01, also("b", 0.02, load_s=1.0), load_s=2.0, turns=TURNS),)),
        (ClosedLoop(200, 1.0, A), ClosedLoop(200, 1.0, B)),
    ),
    "full queues": (Farm((server(0.01, queue_limit=20),)), (OpenLoop(200.0, A),)),
    "fewer events than one in ten seconds": (Farm((server(2.0),)), (ClosedLoop(2, 30.0, A),)),
}  # fmt: skip
