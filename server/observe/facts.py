# SPDX-License-Identifier: Apache-2.0
"""One moment's figures of the server, read once for metrics and status page alike."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypersonic.server.inference.card import Card, CardReadings
from hypersonic.server.inference.model import Model
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.model import Snapshot

_LABEL_NAME = re.compile(r"[^A-Za-z0-9_]")


class UnitFacts(NamedTuple):
    """An instance. card: None for those on the host. busy_clocks: kernel clocks, 0 where there are none."""

    name: str
    card: Card | None
    figures: InstanceFigures
    busy_clocks: int


@dataclass(frozen=True)
class ModelFacts:
    """A loaded version. tags: config.pbtxt's metric_tags as labels."""

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

    @property
    def labels(self) -> dict[str, str]:
        """Of the model as such."""
        return {**self.tags, "model": self.name, "version": str(self.version)}

    @property
    def device_labels(self) -> dict[str, str]:
        """Of what it computes: with gpu_uuid where it is on one card. Figures of several cards are not told apart here."""
        cards = {unit.card.gpu_uuid for unit in self.units if unit.card is not None}
        return {**self.labels, "gpu_uuid": cards.pop()} if len(cards) == 1 else self.labels

    @property
    def has_standby(self) -> bool:
        """Whether a fallback may take over."""
        return any(unit.figures.standby for unit in self.units)


class CardFacts(NamedTuple):
    """A card that some model uses. memory_bytes: all of it, 0 = not known; held_bytes: in this server's buffers.

    in_service, out_of_service: its compute units.
    """

    gpu_uuid: str
    name: str
    memory_bytes: int
    held_bytes: int
    in_service: int
    out_of_service: int
    readings: CardReadings


class Moment(NamedTuple):
    """All models and the cards they use at one moment, monotonic ns."""

    at_ns: int
    models: tuple[ModelFacts, ...]
    cards: tuple[CardFacts, ...] = ()

    @property
    def units(self) -> list[tuple[ModelFacts, UnitFacts]]:
        return [(model, unit) for model in self.models for unit in model.units]


def read_moment(models: Iterable[Model], max_age_s: float = 1.0) -> Moment:
    """Now. Asks the cards for their clocks, which may take as long as a card's register does; what their sensors said may be
    max_age_s old."""
    facts = tuple(_facts(model) for model in models)
    return Moment(time.monotonic_ns(), facts, tuple(_cards(facts, max_age_s)))


def _cards(models: Iterable[ModelFacts], max_age_s: float) -> Iterator[CardFacts]:
    """By gpu_uuid. Each version that uses a card has a Card of its own, which says what it holds there."""
    units: defaultdict[str, list[tuple[Card, UnitFacts]]] = defaultdict(list)
    for model in models:
        for unit in model.units:
            if unit.card is not None:
                units[unit.card.gpu_uuid].append((unit.card, unit))
    for name, on_card in sorted(units.items()):
        cards = {id(card): card for card, _ in on_card}.values()
        card = next(iter(cards))
        in_service = sum(unit.figures.in_service for _, unit in on_card)
        held_bytes = sum(card.held_bytes for card in cards)
        yield CardFacts(
            name, card.name, card.memory_bytes, held_bytes, in_service, len(on_card) - in_service, card.read(max_age_s)
        )


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
    )


def _units(model: Model) -> tuple[UnitFacts, ...]:
    cards, clocks = model.cards(), model.busy_clocks()
    return tuple(
        UnitFacts(name, cards.get(name), replace(figures), clocks.get(name, 0)) for name, figures in model.figures.items()
    )
