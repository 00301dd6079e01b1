# SPDX-License-Identifier: Apache-2.0
"""The contents of the status page: the server, its models with current rates, cards and compute units."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hypersonic import __version__
from hypersonic.server.core.inference.repository import IndexEntry
from hypersonic.server.observe.facts import CardFacts, ModelFacts, Moment, UnitFacts, read_moment
from hypersonic.server.observe.metrics.device import busy_counters, unit_key
from hypersonic.server.observe.metrics.traffic import read_traffic
from hypersonic.server.observe.served import Served
from hypersonic.server.observe.window import Reading, ReadingsWindow

#: rates are averaged over 1 to 30 s; if the page was not requested for longer than that, the next page shows no rates
_INTERVAL_NS, _FORGET_NS = 1_000_000_000, 30_000_000_000


class ServerStatus(NamedTuple):
    """The server.

    Attributes:
        bytes_limit: 0 = none.
        connections: by front end.
        calls_refused: by reason, only reasons that occurred.
    """

    name: str
    version: str
    state: str
    uptime_s: int
    requests_in_flight: int
    bytes_in_flight: int
    bytes_limit: int
    requests_refused: int
    connections: dict[str, int]
    streams: int
    calls_refused: dict[str, int]
    clients_cut_off: int


class ModelStatus(NamedTuple):
    """A version. Rates and means are None if they are unknown: without a second reading, or if nothing ran."""

    name: str
    version: str
    state: str
    reason: str
    backend: str
    fallback: bool
    waiting: int
    inferences_per_s: float | None
    executions_per_s: float | None
    queue_ms: float | None
    compute_ms: float | None
    inferences: int
    failures: int


class UnitStatus(NamedTuple):
    """An instance.

    Attributes:
        card, gpu_uuid: "" on the host.
        away: its model takes turns, and is on no card now.
        busy: the fraction of time with a run in flight, None if unknown.
    """

    name: str
    model: str
    card: str
    gpu_uuid: str
    in_service: bool
    away: bool
    standby: bool
    busy: float | None
    runs: int
    timeouts: int


class CardStatus(NamedTuple):
    """A card that some model uses, or that one which takes turns has left.

    Attributes:
        units_in_service: of its `units` compute units, 0 while no model is on it.
        busy: the mean of their fractions. None: the card does not report the value.
        simulated: the card is emulated; this machine computes the answers.
    """

    name: str
    gpu_uuid: str
    simulated: bool
    units: int
    units_in_service: int
    busy: float | None
    memory_bytes: int | None
    held_bytes: int
    power_w: float | None
    power_limit_w: float | None
    temperatures_c: dict[str, float]
    xclbin_reloads: int | None


class Status(NamedTuple):
    """The whole page."""

    server: ServerStatus
    models: tuple[ModelStatus, ...]
    cards: tuple[CardStatus, ...]
    units: tuple[UnitStatus, ...]

    def document(self) -> dict[str, Any]:
        """Return the page as a JSON object."""
        return {
            "server": self.server._asdict(),
            "models": [model._asdict() for model in self.models],
            "cards": [card._asdict() for card in self.cards],
            "instances": [unit._asdict() for unit in self.units],
        }


class StatusReader:
    """Reads a service's status. Any thread may use it. Each reading asks the cards for their clock counters."""

    def __init__(self, service: Served, server_name: str) -> None:
        self._service = service
        self._name = server_name
        self._window = ReadingsWindow(_INTERVAL_NS, _reading(read_moment(service.repository)), _FORGET_NS)

    def read(self) -> Status:
        """Read the status now."""
        moment = read_moment(self._service.repository)
        rates = self._window.rates(_reading(moment))
        return Status(
            self._server(),
            tuple(_models(self._service.repository.index(), moment, rates)),
            tuple(_card(card, moment, rates) for card in moment.cards),
            tuple(_unit(model, unit, rates) for model, unit in moment.units),
        )

    def _server(self) -> ServerStatus:
        service, admission = self._service, self._service.admission
        state = "READY" if service.ready else "DRAINING" if admission.closed else "NOT READY"
        uptime_s = (time.monotonic_ns() - service.started_ns) // 1_000_000_000
        held = admission.requests, admission.size_bytes, admission.limit_bytes, admission.refused
        traffic = read_traffic(service)
        refused: Counter[str] = Counter()
        for (_, reason), count in traffic.refused.items():
            refused[str(reason)] += count
        return ServerStatus(
            *(self._name, __version__, state, uptime_s, *held),
            connections=dict(traffic.connections),
            streams=traffic.streams,
            calls_refused=dict(+refused),
            clients_cut_off=sum(traffic.cut_off.values()),
        )


def _reading(moment: Moment) -> Reading:
    counters: dict[str, float] = busy_counters(moment)
    for model in moment.models:
        figures, key = model.figures, _key(model.name, str(model.version))
        counters[f"{key}inferences"] = figures.inference_count
        counters[f"{key}executions"] = figures.execution_count
        counters[f"{key}successes"] = figures.success.count
        counters[f"{key}queue_ms"] = figures.queue.ns / 1e6
        counters[f"{key}compute_ms"] = (figures.compute_input.ns + figures.compute_infer.ns + figures.compute_output.ns) / 1e6
    return Reading(moment.at_ns, counters)


def _key(name: str, version: str) -> str:
    return f"{name}/{version}//"


def _models(index: list[IndexEntry], moment: Moment, rates: Mapping[str, float]) -> Iterator[ModelStatus]:
    """Yield the models in the order of the index, which includes those that could not be loaded."""
    loaded = {(model.name, str(model.version)): model for model in moment.models}
    for entry in index:
        model = loaded.get((entry.name, entry.version))
        yield _not_loaded(entry) if model is None else _loaded(entry, model, rates)


def _not_loaded(entry: IndexEntry) -> ModelStatus:
    return ModelStatus(entry.name, entry.version, str(entry.state), entry.reason, "", False, 0, None, None, None, None, 0, 0)


def _loaded(entry: IndexEntry, model: ModelFacts, rates: Mapping[str, float]) -> ModelStatus:
    key = _key(entry.name, entry.version)
    successes = rates.get(f"{key}successes", 0.0)
    return ModelStatus(
        name=entry.name,
        version=entry.version,
        state=str(entry.state),
        reason=entry.reason,
        backend=model.backend,
        fallback=model.on_standby,
        waiting=model.waiting,
        inferences_per_s=rates.get(f"{key}inferences"),
        executions_per_s=rates.get(f"{key}executions"),
        queue_ms=rates[f"{key}queue_ms"] / successes if successes else None,
        compute_ms=rates[f"{key}compute_ms"] / successes if successes else None,
        inferences=model.figures.inference_count,
        failures=model.figures.fail.count,
    )


def _is_on(unit: UnitFacts, card: CardFacts) -> bool:
    return unit.card is not None and not unit.card.away and unit.card.gpu_uuid == card.gpu_uuid


def _card(card: CardFacts, moment: Moment, rates: Mapping[str, float]) -> CardStatus:
    keys = [unit_key(model, unit) for model, unit in moment.units if _is_on(unit, card)]
    shares = [min(1.0, rates[key]) for key in keys if key in rates]
    return CardStatus(
        name=card.name,
        gpu_uuid=card.gpu_uuid,
        simulated=card.simulated,
        units=card.in_service + card.out_of_service,
        units_in_service=card.in_service,
        busy=sum(shares) / len(shares) if shares else None,
        memory_bytes=card.memory_bytes or None,
        held_bytes=card.held_bytes,
        power_w=card.readings.power_w,
        power_limit_w=card.readings.power_limit_w,
        temperatures_c=dict(sorted(card.readings.temperatures_c.items())),
        xclbin_reloads=card.readings.xclbin_reloads,
    )


def _unit(model: ModelFacts, unit: UnitFacts, rates: Mapping[str, float]) -> UnitStatus:
    busy = rates.get(unit_key(model, unit))
    return UnitStatus(
        name=unit.name,
        model=f"{model.name} version {model.version}",
        card=unit.card.name if unit.card and not unit.card.away else "",
        gpu_uuid=unit.card.gpu_uuid if unit.card and not unit.card.away else "",
        in_service=unit.figures.in_service,
        away=unit.card is not None and unit.card.away,
        standby=unit.figures.standby,
        busy=None if busy is None else min(1.0, busy),
        runs=unit.figures.runs,
        timeouts=unit.figures.timeouts,
    )
