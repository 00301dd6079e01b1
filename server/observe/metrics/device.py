# SPDX-License-Identifier: Apache-2.0
"""Metrics nv_gpu_* and fpga_* (cards and their compute units), and hypersonic_instance_* (instances on the host).

A card appears in nv_gpu_* once, whatever runs on it, because SuperSONIC counts servers by nv_gpu_utilization. A quantity that a
card does not report has no series: an emulated card has neither temperature nor power, and no card counts the energy it has
used (nv_energy_consumption). The counters of a model that takes turns go on wherever it is, so they do not name a card.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from hypersonic.server.core.inference.card import Residency
from hypersonic.server.observe.facts import CardFacts, ModelFacts, Moment, UnitFacts
from hypersonic.server.statistics.exposition import Family, Row, Sample, families

#: an instance with its model
Unit = tuple[ModelFacts, UnitFacts]
#: families of instances; the names begin with what the instance is
_EVERY: tuple[Row[UnitFacts], ...] = (
    ("runs_total", "counter", "Runs completed", lambda unit: unit.figures.runs),
    ("timeouts_total", "counter", "Runs not completed in time", lambda unit: unit.figures.timeouts),
    ("revived_total", "counter", "Times it was lost and brought back", lambda unit: unit.figures.revived),
    ("in_service", "gauge", "1 while it takes runs", lambda unit: unit.figures.in_service),
    ("busy_seconds_total", "counter", "Time with a run in flight", lambda unit: unit.figures.busy_ns / 1e9),
)
_CARD: tuple[Row[UnitFacts], ...] = (
    ("busy_cycles_total", "counter", "Kernel clocks with a run in flight", lambda unit: unit.busy_clocks),
    ("dma_in_bytes_total", "counter", "Bytes of tensors sent to the card", lambda unit: unit.figures.bytes_in),
    ("dma_out_bytes_total", "counter", "Bytes of tensors fetched from the card", lambda unit: unit.figures.bytes_out),
)
_RELOADS = "Times an xclbin was loaded to the card after the first one"
_TO_CARD, _FROM_CARD = "Bytes sent to the card, for all models, with weights", "Bytes fetched from the card, for all models"
_OF_CARD: tuple[Row[CardFacts], ...] = (
    ("nv_gpu_memory_total_bytes", "gauge", "GPU total memory, in bytes", lambda card: card.memory_bytes or None),
    (
        "nv_gpu_memory_used_bytes",
        "gauge",
        "GPU used memory, in bytes",
        lambda card: card.held_bytes if card.memory_bytes else None,
    ),
    ("nv_gpu_power_usage", "gauge", "GPU power usage in watts", lambda card: card.readings.power_w),
    ("nv_gpu_power_limit", "gauge", "GPU power management limit in watts", lambda card: card.readings.power_limit_w),
    ("fpga_card_power_watts", "gauge", "Power the card takes, in watts", lambda card: card.readings.power_w),
    ("fpga_card_xclbin_reloads_total", "counter", _RELOADS, lambda card: card.readings.xclbin_reloads),
    ("fpga_card_dma_in_bytes_total", "counter", _TO_CARD, lambda card: card.readings.bytes_to_card),
    ("fpga_card_dma_out_bytes_total", "counter", _FROM_CARD, lambda card: card.readings.bytes_from_card),
)
#: families of models with a fallback backend
_OF_FALLBACK: tuple[Row[ModelFacts], ...] = (
    ("fpga_fallback_active", "gauge", "1 while the fallback backend serves the model", lambda model: model.on_standby),
    (
        "fpga_fallback_runs_total",
        "counter",
        "Runs the fallback backend completed",
        lambda model: sum(unit.figures.runs for unit in model.units if unit.figures.standby),
    ),
)
#: families of models that take turns
_OF_TURNS: tuple[Row[tuple[ModelFacts, Residency]], ...] = (
    ("fpga_model_resident", "gauge", "1 while the model is on a card", lambda each: each[1].resident),
    ("fpga_model_card_loads_total", "counter", "Times the model came to a card", lambda each: each[1].loads),
    ("fpga_model_card_load_seconds_total", "counter", "Time to bring it to a card", lambda each: each[1].load_s),
    ("fpga_model_card_waits_total", "counter", "Requests that found it on no card", lambda each: each[1].waits),
    ("fpga_model_card_wait_seconds_total", "counter", "Time with requests that waited for a card", lambda each: each[1].wait_s),
    ("fpga_model_card_longest_wait_seconds", "gauge", "Longest wait for a card", lambda each: each[1].longest_wait_s),
)


def busy_counters(moment: Moment) -> dict[str, float]:
    """Return, for every instance, unit_key -> seconds with a run in flight since load."""
    return {unit_key(model, unit): unit.figures.busy_ns / 1e9 for model, unit in moment.units}


def unit_key(model: ModelFacts, unit: UnitFacts) -> str:
    """Return the key of one instance of one version. Names of models do not contain a slash."""
    return f"{model.name}/{model.version}/{unit.name}"


def device_families(moment: Moment, busy: Mapping[str, float]) -> Iterator[Family]:
    """Yield all families.

    Args:
        busy: the rates of busy_counters().
    """
    fractions = {key: min(1.0, rate) for key, rate in busy.items()}
    on_card = [(model, unit) for model, unit in moment.units if unit.card is not None]
    on_host = [(model, unit) for model, unit in moment.units if unit.card is None]
    yield _utilization(on_card, fractions)
    yield from families(_OF_CARD, moment.cards, lambda card: {"gpu_uuid": card.gpu_uuid})
    text = "Temperature by sensor, in degrees Celsius"
    temperatures = {card.gpu_uuid: card.readings.temperatures_c for card in moment.cards}
    yield _by_part("fpga_card_temperature_celsius", text, "sensor", temperatures)
    text = "Bytes of this server's buffers by memory bank"
    held_bytes = {card.gpu_uuid: card.readings.held_bytes for card in moment.cards}
    yield _by_part("fpga_card_bank_used_bytes", text, "bank", held_bytes)
    yield from _of_units("fpga_compute_unit", "compute_unit", on_card, (*_EVERY, *_CARD))
    yield Family(
        "fpga_compute_unit_busy_ratio",
        "gauge",
        "Share of time with a run in flight, lately [0.0 - 1.0]",
        [Sample(_labels(m, u, "compute_unit"), fractions.get(unit_key(m, u), 0.0)) for m, u in on_card],
    )
    yield from _of_units("hypersonic_instance", "model_instance", on_host, _EVERY)
    yield from families(_OF_FALLBACK, [model for model in moment.models if model.has_standby], lambda model: model.labels)
    turns = [(model, model.residency) for model in moment.models if model.residency is not None]
    yield from families(_OF_TURNS, turns, lambda each: each[0].labels)


def _utilization(on_card: list[Unit], fractions: Mapping[str, float]) -> Family:
    """Return the mean of the compute units' fractions for each card."""
    cards: defaultdict[str, list[float]] = defaultdict(list)
    for model, unit in on_card:
        if unit.card is not None and unit.card.gpu_uuid:
            cards[unit.card.gpu_uuid] += [] if unit.card.away else [fractions.get(unit_key(model, unit), 0.0)]
    samples = [Sample({"gpu_uuid": card}, sum(shares) / max(1, len(shares))) for card, shares in cards.items()]
    return Family("nv_gpu_utilization", "gauge", "GPU utilization rate [0.0 - 1.0)", samples)


def _by_part(name: str, text: str, part: str, cards: Mapping[str, Mapping[str, float]]) -> Family:
    """Return a family with a series for each part of each card.

    Args:
        part: the label.
        cards: gpu_uuid -> part -> value.
    """
    samples = [
        Sample({"gpu_uuid": uuid, part: which}, value)
        for uuid, values in cards.items()
        for which, value in sorted(values.items())
    ]
    return Family(name, "gauge", text, samples)


def _of_units(prefix: str, label: str, units: list[Unit], rows: tuple[Row[UnitFacts], ...]) -> Iterator[Family]:
    labels = [_labels(model, unit, label) for model, unit in units]
    for name, kind, text, value in rows:
        samples = [Sample(shown, float(value(unit) or 0)) for shown, (_, unit) in zip(labels, units, strict=True)]
        yield Family(f"{prefix}_{name}", kind, text, samples)


def _labels(model: ModelFacts, unit: UnitFacts, label: str) -> dict[str, str]:
    card = {"gpu_uuid": unit.card.gpu_uuid} if unit.card is not None and model.residency is None else {}
    return {"model": model.name, "version": str(model.version), label: unit.name, **card}
