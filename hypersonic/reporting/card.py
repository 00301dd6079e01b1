# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench card`: the simulated rate of a model on a card, by compute units and by runs in flight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.estimate.rates import CARD, CardRate, card_rate, least_clocks, the
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.xclbin.connectivity import most_units
from hypersonic.plan.inputs import ModelCost
from hypersonic.plan.models import find_zoo_model, read_model

#: the units and the runs in flight of each that the table has
_UNITS, _RUNS = (1, 2, 4, 8, 16), (1, 2, 3)


@dataclass(frozen=True)
class CardBench:
    """A model on a card.

    Attributes:
        rows: of an event, which is one run.
        clocks: of an event in one unit.
        event_bytes: of its inputs and of its results.
        units: those of `rate`.
        table: the card's rate for each (units, runs in flight of each), without the network.
        rate: the predicted rate, with all limits.
    """

    model: str
    platform: Platform
    rows: int
    clocks: float
    event_bytes: tuple[int, int]
    units: int
    table: dict[tuple[int, int], CardRate]
    rate: CardRate


def bench_card(
    model: str, platform: str, *, rows: int = 0, clocks: float = 0, units: int = 0, network_gbps: float, kernel_mhz: float = 0
) -> CardBench:
    """Simulate a model on a card.

    Args:
        model: a zoo name, or the folder of a published model.
        rows: of an event; 0: those of the zoo model's event, or 16 000.
        clocks: of an event, as a kernel counted them; 0: those of the core's interval.
        units: 0: those of the published model, or 1.

    Raises:
        PlanError: For an unknown model.
        PlatformError: For an unknown card.
        LinkError: For a card without memory.
        ValueError: For a number below 0.
    """
    cost, event_rows = _cost(model)
    card, rows, units = find_platform(platform), rows or event_rows, units or cost.units
    clocks = clocks or max(cost.ii, least_clocks(1, cost.row_bytes)) * rows
    event_bytes = rows * cost.row_bytes[0], rows * cost.row_bytes[1]

    def rate(units: int, **options: Any) -> CardRate:
        return card_rate(card, clocks, event_bytes, units=units, kernel_mhz=kernel_mhz, **options)

    counts = sorted({*(each for each in _UNITS if each <= most_units(card)), min(units, most_units(card))})
    table = {(count, runs): rate(count, runs=runs) for count in counts for runs in _RUNS}
    return CardBench(
        cost.name, card, rows, clocks, event_bytes, units, table, rate(units, network_gbps=network_gbps)
    )  # fmt: skip


def _cost(model: str) -> tuple[ModelCost, int]:
    if (folder := Path(model)).is_dir():
        return read_model(folder)[0], 16_000
    known = find_zoo_model(model)
    return known.cost, known.event_rows


def card_lines(bench: CardBench) -> Iterator[str]:
    """The lines that the command prints."""
    x, y = bench.event_bytes
    event = f"events of {bench.rows:,} rows, {x:,} bytes in, {y:,} out, {bench.clocks:,.0f} clocks"
    yield f"{bench.model} on a {bench.platform.name}: {event}"
    yield "simulated: no card was measured, and the network is left out of this table"
    yield "units  runs a unit      events/s          rows/s  limited by"
    for (units, runs), rate in bench.table.items():
        events = rate.of(CARD)
        yield f"{units:5}  {runs:11}  {events:12,.0f}  {events * bench.rows:14,.0f}  {the(rate.card_limit)}"
    yield from bench.rate.lines()


def card_data(bench: CardBench) -> dict[str, Any]:
    """The figures as a JSON object."""
    return {
        "model": bench.model,
        "rows": bench.rows,
        "clocks": bench.clocks,
        "units": bench.units,
        "table": [
            {"units": units, "runs": runs, "events_per_s": rate.of(CARD), "limited_by": rate.card_limit}
            for (units, runs), rate in bench.table.items()
        ],
        "card": bench.rate.as_data(),
    }
