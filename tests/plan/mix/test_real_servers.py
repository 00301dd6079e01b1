# SPDX-License-Identifier: Apache-2.0
"""Mixed farms of real servers on this machine: figures of the planner against what the project's client measures.

The servers are those of the project, with a backend whose runs last tens of milliseconds, or an emulated card. So the figures
follow from these times, and not from the speed of the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hypersonic.client import AsyncClient, Limits
from hypersonic.commands.plan import server_turns
from hypersonic.plan.farm import Call, ClosedLoop, Constant, Farm, Hosted, Load, OpenLoop, Server, Turns
from hypersonic.plan.mix.analyse import Figures, analyse
from hypersonic.server.app import Server as RealServer
from hypersonic.server.app import Signals
from hypersonic.server.options import Options
from tests.server.backends.fpga.repositories import Repository, linked
from tests.server.conftest import CONFIG, Script, SumBackend
from tests.server.python_serving import serving

LIMIT = 0.15

#: what is left out before it is measured, and how long it is measured, in seconds
WARM_UP_S, MEASURED_S = 2.0, 12.0

A, B = Call(1, 12.0, 4.0, "a"), Call(1, 12.0, 4.0, "b")


@dataclass
class Measured:
    """The record of a load: ends of events, and durations of calls by model, each with its time."""

    began_s: float
    events: list[float] = field(default_factory=list)
    calls: list[tuple[float, str, float]] = field(default_factory=list)

    def events_per_s(self) -> float:
        """Return the rate of the measured time."""
        return sum(self._counts(at_s) for at_s in self.events) / MEASURED_S

    def call_s(self, model: str) -> float:
        """Return the mean time of the calls that began in the measured time."""
        times = [spent_s for at_s, name, spent_s in self.calls if name == model and self._counts(at_s)]
        return sum(times) / len(times)

    def _counts(self, at_s: float) -> bool:
        return WARM_UP_S <= at_s - self.began_s < WARM_UP_S + MEASURED_S


@contextmanager
def sum_server(place: Path, services_s: dict[str, float]) -> Iterator[str]:
    """A server whose models' runs last so long; its address."""
    for model in services_s:
        (place / model / "1").mkdir(parents=True)
        (place / model / "config.pbtxt").write_text(CONFIG.replace('"sum"', f'"{model}"'))
    ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    addresses: dict[str, Any] = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    backends = {model: SumBackend(Script(run_s=seconds)) for model, seconds in services_s.items()}
    server = RealServer(Options((place,), **ports, **addresses), backends)
    server.load()
    server.start()
    try:
        yield server.addresses["GRPCInferenceService"]
    finally:
        server.stop(Signals())


async def measure(addresses: Sequence[str], loads: Sequence[Load], width: int) -> list[Measured]:
    """Put the loads on the servers.

    Args:
        width: numbers of a row.
    """
    row, random = np.ones((1, width), np.float32), Random(1)
    async with AsyncClient(addresses, limits=Limits(in_flight=1000)) as client:
        models = {call.model: client.model(call.model) for load in loads for call in load.calls}
        for model in models.values():
            await model.infer(row)
        found = [Measured(time.monotonic()) for _ in loads]
        end_s = found[0].began_s + WARM_UP_S + MEASURED_S

        async def event(load: Load, measured: Measured, before: Callable[[], Awaitable[None]]) -> None:
            for call in load.calls:
                await before()
                began_s = time.monotonic()
                await models[call.model].infer(row)
                measured.calls.append((began_s, call.model, time.monotonic() - began_s))
            measured.events.append(time.monotonic())

        async def job(load: ClosedLoop, measured: Measured) -> None:
            core, shape = asyncio.Lock(), load.own_work_cv**-2

            async def work() -> None:
                async with core:
                    await asyncio.sleep(random.gammavariate(shape, load.own_work_s / len(load.calls) / shape))

            async def repeat() -> None:
                while time.monotonic() < end_s:
                    await event(load, measured, work)

            await asyncio.gather(*(repeat() for _ in range(load.in_flight)))

        async def arrivals(load: OpenLoop, measured: Measured) -> None:
            async def nothing() -> None: ...

            begun = []
            for number in range(int((WARM_UP_S + MEASURED_S) * load.rate_per_s)):
                await asyncio.sleep(max(0.0, found[0].began_s + number / load.rate_per_s - time.monotonic()))
                begun.append(asyncio.create_task(event(load, measured, nothing)))
            await asyncio.gather(*begun)

        tasks = []
        for load, measured in zip(loads, found, strict=True):
            if isinstance(load, ClosedLoop):
                tasks += [job(load, measured) for _ in range(load.jobs)]
            else:
                tasks.append(arrivals(load, measured))
        await asyncio.gather(*tasks)
    return found


def agree(figures: Figures, found: Sequence[Measured]) -> None:
    """Assert that the rate of each load is as computed, and so is the mean time of the calls of each model."""
    for computed, measured in zip(figures.loads, found, strict=True):
        assert measured.events_per_s() == pytest.approx(computed.events_per_s, rel=LIMIT)
    everything = Measured(found[0].began_s, calls=[call for measured in found for call in measured.calls])
    for model in {model for load in figures.loads for model in load.call_s}:
        times = {load.call_s[model] for load in figures.loads if model in load.call_s}
        assert everything.call_s(model) == pytest.approx(times.pop(), rel=LIMIT), model


@pytest.mark.slow
@pytest.mark.parametrize(
    "loads",
    [
        pytest.param(
            (
                ClosedLoop(5, 1.0, (A, B)),
                ClosedLoop(2, 0.4, A, in_flight=2),
                OpenLoop(3.0, A, poisson=False),
            ),
            id="jobs, asynchronous jobs and arrivals",
        ),
        pytest.param((ClosedLoop(30, 0.4, A), ClosedLoop(12, 0.2, B)), id="twice saturated"),
    ],
)
def test_two_models_on_servers_of_two_kinds(tmp_path: Path, loads: tuple[Load, ...]) -> None:
    farm = Farm(
        (Server(Constant(0.06), model="a", others=(Hosted(Constant(0.12), model="b"),)), Server(Constant(0.1), model="a"))
    )
    with ExitStack() as stack:
        addresses = [
            stack.enter_context(sum_server(tmp_path / "fast", {"a": 0.06, "b": 0.12})),
            stack.enter_context(sum_server(tmp_path / "slow", {"a": 0.1})),
        ]
        found = asyncio.run(measure(addresses, loads, 3))
    agree(analyse(farm, loads), found)


@pytest.mark.slow
def test_models_that_take_turns_on_a_card(tmp_path: Path, image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card with a residency of 0.5 s and loads of 0.5 s: each model is away for 1.5 s of 2 s."""
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "500")
    repository = Repository(tmp_path / "models")
    for number, model in enumerate("ab"):
        parameters = {"card_policy": "on_demand", "card_residency_ms": "500"}
        repository.publish(model, linked(image, digest=f"{number:064x}"), parameters=parameters)
    loads = (OpenLoop(20.0, A, poisson=False), OpenLoop(20.0, B, poisson=False))
    with serving(repository.place) as server:
        found = asyncio.run(measure([server.addresses["GRPCInferenceService"]], loads, 18))
    one = Server(
        Constant(0.002),
        model="a",
        load_s=0.5,
        turns=Turns(server_turns, 0.5),
        others=(Hosted(Constant(0.002), model="b", load_s=0.5),),
    )
    agree(analyse(Farm((one,)), loads), found)
