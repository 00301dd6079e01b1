# SPDX-License-Identifier: Apache-2.0
"""The server's figures at one moment, read once for the metrics or the status page."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypersonic.server.core.inference.card import CardReadings, CardStatus, Residency
from hypersonic.server.core.inference.model import Model
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.model import Snapshot

_LABEL_NAME = re.compile(r"[^A-Za-z0-9_]")


class UnitFacts(NamedTuple):
    """An instance.

    Attributes:
        card: None for an instance on the host, the last one while the model is on none.
        busy_clocks: kernel clock cycles, 0 on the host.
    """

    name: str
    card: CardStatus | None
    figures: InstanceFigures
    busy_clocks: int


@dataclass(frozen=True)
class ModelFacts:
    """A loaded version.

    Attributes:
        tags: config.pbtxt's metric_tags as labels.
        load_duration_s: in seconds.
    """

    name: str
    version: int
    backend: str
    tags: Mapping[str, str]
    in_service: bool
    reason: str
    on_standby: bool
    waiting: int
    load_duration_s: float
    decoupled: bool
    response_cache: bool
    figures: Snapshot
    units: tuple[UnitFacts, ...]
    residency: Residency | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels of metrics about the model itself."""
        return {**self.tags, "model": self.name, "version": str(self.version)}

    @property
    def device_labels(self) -> dict[str, str]:
        """The labels of metrics about its computation, with gpu_uuid if it stays on one card.

        These metrics do not distinguish several cards. The counters of a model that takes turns have to go on when it comes to
        another card.
        """
        if self.residency is not None:
            return self.labels
        cards = {unit.card.gpu_uuid for unit in self.units if unit.card is not None}
        return {**self.labels, "gpu_uuid": cards.pop()} if len(cards) == 1 else self.labels

    @property
    def has_standby(self) -> bool:
        """True if the model has a fallback backend."""
        return any(unit.figures.standby for unit in self.units)


class CardFacts(NamedTuple):
    """A card that some model uses, or that one which takes turns has left.

    Attributes:
        memory_bytes: its total memory, 0 if unknown.
        held_bytes: the part in this server's buffers.
        in_service, out_of_service: the number of its compute units in each state.
        simulated: the card is emulated; this machine computes the answers.
    """

    gpu_uuid: str
    name: str
    memory_bytes: int
    held_bytes: int
    in_service: int
    out_of_service: int
    readings: CardReadings
    simulated: bool


class Moment(NamedTuple):
    """All models, and the cards that they use, at one moment in monotonic ns."""

    at_ns: int
    models: tuple[ModelFacts, ...]
    cards: tuple[CardFacts, ...] = ()

    @property
    def units(self) -> list[tuple[ModelFacts, UnitFacts]]:
        """All instances, each with its model."""
        return [(model, unit) for model in self.models for unit in model.units]


def read_moment(models: Iterable[Model], max_age_s: float = 1.0) -> Moment:
    """Read everything now. This asks the cards for their clock counters, which may take as long as reading a register.

    Args:
        max_age_s: the largest age of sensor readings, in seconds.
    """
    facts = tuple(_facts(model) for model in models)
    return Moment(time.monotonic_ns(), facts, tuple(_cards(facts, max_age_s)))


def _cards(models: Iterable[ModelFacts], max_age_s: float) -> Iterator[CardFacts]:
    """Yield the cards in order of gpu_uuid. Each version on a card has its own Card, with the bytes that it holds there."""
    units: defaultdict[str, list[tuple[CardStatus, UnitFacts]]] = defaultdict(list)
    for model in models:
        for unit in model.units:
            if unit.card is not None and unit.card.gpu_uuid:
                units[unit.card.gpu_uuid].append((unit.card, unit))
    for name, on_card in sorted(units.items()):
        cards = {id(card): card for card, _ in on_card}.values()
        card = next(iter(cards))
        there = [unit.figures.in_service for card, unit in on_card if not card.away]
        in_service = sum(there)
        held_bytes = sum(card.held_bytes for card in cards)
        yield CardFacts(
            name, card.name, card.memory_bytes, held_bytes, in_service, len(there) - in_service, card.read(max_age_s),
            card.simulated,
        )  # fmt: skip


def _facts(model: Model) -> ModelFacts:
    message = model.config.message
    return ModelFacts(
        name=model.name,
        version=model.version,
        backend=model.config.backend or model.config.platform,
        tags={f"_{_LABEL_NAME.sub('_', key)}": value for key, value in message.metric_tags.items()},
        in_service=model.in_service,
        reason=model.reason,
        on_standby=model.on_standby,
        waiting=model.waiting,
        load_duration_s=model.load_duration_s,
        decoupled=model.config.decoupled,
        response_cache=message.response_cache.enable,
        figures=model.statistics.snapshot(),
        units=_units(model),
        residency=model.residency,
    )


def _units(model: Model) -> tuple[UnitFacts, ...]:
    cards, clocks = model.cards(), model.busy_clocks()
    return tuple(
        UnitFacts(name, cards.get(name), replace(figures), clocks.get(name, 0)) for name, figures in model.figures.items()
    )
