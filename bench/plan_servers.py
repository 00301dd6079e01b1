# SPDX-License-Identifier: Apache-2.0
"""Compares the planner's figures of mixed farms with what the client measures at real servers on this machine.

    python -m bench.plan_servers

The servers are those of the project, with a backend whose runs last tens of milliseconds, or an emulated card. So the figures
follow from these times and not from the speed of the machine, as long as its processors are idle. It takes a minute.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hypersonic.client import AsyncClient, AsyncModel, Limits
from hypersonic.commands.plan import server_turns
from hypersonic.plan.farm import Call, ClosedLoop, Constant, Farm, Hosted, Load, OpenLoop, Server, Turns
from hypersonic.plan.mix.analyse import Figures, analyse
from hypersonic.server.app import Server as RealServer
from hypersonic.server.app import Signals
from hypersonic.server.options import Options
from tests.host.conftest import DEVICE_MODEL, compile_model
from tests.host.conftest import HERE as HOST_TESTS
from tests.server.backends.fpga.repositories import Repository, linked
from tests.server.conftest import CONFIG, Script, SumBackend
from tests.server.python_serving import serving

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


@dataclass(frozen=True)
class Models:
    """The client's models by name, and the row that is sent to each."""

    models: Mapping[str, AsyncModel]
    row: np.ndarray
    end_s: float
    random: Random = field(default_factory=lambda: Random(1))

    async def call(self, name: str, measured: Measured) -> None:
        """Send a request, and record its time."""
        began_s = time.monotonic()
        await self.models[name].infer(self.row)
        measured.calls.append((began_s, name, time.monotonic() - began_s))

    async def job(self, load: ClosedLoop, measured: Measured) -> None:
        """Work and call in turn until the time is up, with `load.in_flight` events at once, on one core."""
        core, shape = asyncio.Lock(), load.own_work_cv**-2

        async def events() -> None:
            while time.monotonic() < self.end_s:
                for call in load.calls:
                    async with core:
                        await asyncio.sleep(self.random.gammavariate(shape, load.own_work_s / len(load.calls) / shape))
                    await self.call(call.model, measured)
                measured.events.append(time.monotonic())

        await asyncio.gather(*(events() for _ in range(load.in_flight)))

    async def arrivals(self, load: OpenLoop, measured: Measured) -> None:
        """Begin events at a constant rate."""

        async def event() -> None:
            for call in load.calls:
                await self.call(call.model, measured)
            measured.events.append(time.monotonic())

        begun = []
        for number in range(int((WARM_UP_S + MEASURED_S) * load.rate_per_s)):
            await asyncio.sleep(max(0.0, measured.began_s + number / load.rate_per_s - time.monotonic()))
            begun.append(asyncio.create_task(event()))
        await asyncio.gather(*begun)


async def measure(addresses: Sequence[str], loads: Sequence[Load], width: int) -> list[Measured]:
    """Put the loads on the servers.

    Args:
        width: numbers of a row.
    """
    async with AsyncClient(addresses, limits=Limits(in_flight=1000)) as client:
        row = np.ones((1, width), np.float32)
        by_name = {call.model: client.model(call.model) for load in loads for call in load.calls}
        for model in by_name.values():
            await model.infer(row)
        models = Models(by_name, row, time.monotonic() + WARM_UP_S + MEASURED_S)
        found = [Measured(models.end_s - WARM_UP_S - MEASURED_S) for _ in loads]
        tasks = []
        for load, measured in zip(loads, found, strict=True):
            if isinstance(load, ClosedLoop):
                tasks += [models.job(load, measured) for _ in range(load.jobs)]
            else:
                tasks.append(models.arrivals(load, measured))
        await asyncio.gather(*tasks)
    return found


def compare(name: str, figures: Figures, found: Sequence[Measured]) -> None:
    """Print the rate of each load and the mean time of the calls of each model, computed and measured."""
    for number, (computed, measured) in enumerate(zip(figures.loads, found, strict=True), 1):
        _line(name, f"rate of load {number}, events/s", computed.events_per_s, measured.events_per_s())
    everything = Measured(found[0].began_s, calls=[call for measured in found for call in measured.calls])
    for model, call_s in sorted({model: s for load in figures.loads for model, s in load.call_s.items()}.items()):
        _line(name, f"a call of {model}, s", call_s, everything.call_s(model))


def _line(farm: str, figure: str, computed: float, measured: float) -> None:
    print(f"{farm:40}{figure:28}{computed:10.3f}{measured:10.3f}{measured / computed - 1:+9.1%}", flush=True)


def two_kinds(name: str, place: Path, loads: tuple[Load, ...]) -> None:
    """Put the loads on two models, on servers of two kinds."""
    farm = Farm(
        (Server(Constant(0.06), model="a", others=(Hosted(Constant(0.12), model="b"),)), Server(Constant(0.1), model="a"))
    )
    with ExitStack() as stack:
        addresses = [
            stack.enter_context(sum_server(place / "fast", {"a": 0.06, "b": 0.12})),
            stack.enter_context(sum_server(place / "slow", {"a": 0.1})),
        ]
        found = asyncio.run(measure(addresses, loads, 3))
    compare(name, analyse(farm, loads), found)


def turns(name: str, place: Path) -> None:
    """Put two models on a card with a residency of 0.5 s and loads of 0.5 s: each model is away for 1.5 s of 2 s."""
    os.environ |= {"HYPERSONIC_EMU_DEVICES": "1", "HYPERSONIC_EMU_LOAD_MS": "500"}
    repository = Repository(place)
    image = compile_model(HOST_TESTS / "model.c", DEVICE_MODEL).read_bytes()
    for number, model in enumerate("ab"):
        parameters = {"card_policy": "on_demand", "card_residency_ms": "500"}
        repository.publish(model, linked(image, digest=f"{number:064x}"), parameters=parameters)
    loads = (OpenLoop(20.0, A, poisson=False), OpenLoop(20.0, B, poisson=False))
    with serving(repository.place) as server:
        found = asyncio.run(measure([server.addresses["GRPCInferenceService"]], loads, 18))
    others = (Hosted(Constant(0.002), model="b", load_s=0.5),)
    one = Server(Constant(0.002), model="a", load_s=0.5, turns=Turns(server_turns, 0.5), others=others)
    compare(name, analyse(Farm((one,)), loads), found)


def main() -> None:
    """Measure three farms, and print the figures."""
    print(f"{'farm':40}{'figure':28}{'computed':>10}{'measured':>10}{'off':>9}")
    jobs = (ClosedLoop(5, 1.0, (A, B)), ClosedLoop(2, 0.4, A, in_flight=2), OpenLoop(3.0, A, poisson=False))
    with tempfile.TemporaryDirectory() as scratch:
        two_kinds("jobs, asynchronous jobs and arrivals", Path(scratch) / "jobs", jobs)
        saturated = (ClosedLoop(30, 0.4, A), ClosedLoop(12, 0.2, B))
        two_kinds("twice saturated", Path(scratch) / "saturated", saturated)
        turns("models that take turns on a card", Path(scratch) / "turns")


if __name__ == "__main__":
    main()
