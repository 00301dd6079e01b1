# SPDX-License-Identifier: Apache-2.0
"""Types of the search: the resources of a card, designs that fit it, and the design that is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.resources import NOTHING, Amounts

#: a layer whose multipliers work for a smaller fraction of the time is marked as coarse
BUSY = 0.85


class FitError(ConversionError):
    """No design of the network fits the card. The message names the resources that are exceeded."""


@dataclass(frozen=True)
class DiePlan:
    """The stages of a core on several dies.

    Attributes:
        cuts: for each die but the first, the name of its first stage; "" if no stage is left for it.
        amounts: resources on each die, with the registers of its crossings, and on the first with the kernel's shell.
        layers: of each die, the layers of its first and its last stage; empty if it has none.
        wires: that cross each boundary, with handshakes.
    """

    cuts: tuple[str, ...]
    amounts: tuple[Amounts, ...]
    layers: tuple[tuple[str, ...], ...]
    wires: tuple[int, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DiePlan:
        """Read the value of dataclasses.asdict."""
        amounts = tuple(Amounts.from_json(die) for die in value["amounts"])
        return cls(tuple(value["cuts"]), amounts, tuple(map(tuple, value["layers"])), tuple(value["wires"]))

    @property
    def total(self) -> Amounts:
        """Resources on all dies."""
        return sum(self.amounts, NOTHING)


@dataclass(frozen=True)
class CardResources:
    """The resources of a card for compute units.

    Attributes:
        dies: resources of each die that units may use.
        units: the most units, one per memory.
        boundary_wires: the most wires of units over the boundary between two dies; 0 if not limited.
        clock_mhz: kernel clock, in MHz.
        shell: resources of every unit in addition to its core.
        x_bytes, y_bytes: size of a row on the wire; 0 to ignore transfers.
        bus_bytes: bytes per clock of a unit's memory, each way.
        h2c_gb_s, c2h_gb_s, both_gb_s: transfers from host to card, back, and both together, in GB/s; 0 if not known.
        bank_gb_s: reads and writes of a unit's memory bank, in which every byte is written and read; 0 if not known.
        one_bank: a unit's inputs and results are in one bank.
        wanted_hz: rows per second that are enough, so that the smallest design that reaches them is chosen; 0 for the fastest.
    """

    name: str
    dies: tuple[Amounts, ...]
    units: int
    clock_mhz: float
    shell: Amounts = NOTHING
    x_bytes: int = 0
    y_bytes: int = 0
    bus_bytes: int = 64
    h2c_gb_s: float = 0
    c2h_gb_s: float = 0
    both_gb_s: float = 0
    bank_gb_s: float = 0
    one_bank: bool = True
    wanted_hz: float = 0
    boundary_wires: int = 0

    @property
    def whole(self) -> Amounts:
        """Resources of all dies together."""
        return sum(self.dies, NOTHING)


@dataclass(frozen=True)
class Design:
    """A design of one compute unit.

    Attributes:
        interval: clocks from row to row.
        unit: its resources, including the shell.
        most_units: how many the card holds, possibly 0.
        spans: True if it is larger than a die and lies in several.
        reuse_factors, weights_in: by layer name.
        dies: its stages on the dies, if it spans them.
        short: the die on which it has no room, and what is short there; "" if it fits.
    """

    interval: int
    unit: Amounts
    most_units: int
    spans: bool
    reuse_factors: Mapping[str, int]
    weights_in: Mapping[str, WeightsIn]
    dies: DiePlan | None = None
    short: str = ""


@dataclass(frozen=True)
class DesignPoint:
    """A number of units of one design.

    Attributes:
        rate_hz: rows per second of all units.
        bound: what limits the rate.
        fullest: the largest fraction used of any resource of the card.
        kind: that resource.
    """

    design: Design
    units: int
    rate_hz: float
    bound: str
    fullest: float
    kind: str


@dataclass(frozen=True)
class LayerFit:
    """A layer with multipliers in the chosen design.

    Attributes:
        interval: clocks per row of this layer.
        first_out, last_out: clocks from a row's first beat at the network's input.
        busy: fraction of the network's interval in which the multipliers work.
        weights_in: None for products of two tensors.
        coarse: the multipliers are idle for long because the next slower shape would not keep up.
    """

    name: str
    reuse_factor: int
    lanes: tuple[int, int]  # inputs and outputs per clock
    multipliers: int
    interval: int
    first_out: int
    last_out: int
    busy: float
    weights_in: WeightsIn | None
    coarse: bool


@dataclass(frozen=True)
class Fit:
    """Result of a search.

    Attributes:
        points: fastest first; none is worse than another in both rate and `fullest`.
        chosen: one of them.
        latency_cycles: of the network in the chosen design, for a row without stalls.
        layers: of the chosen design.
        tried: number of sketched designs.
    """

    network: str
    card: CardResources
    chosen: DesignPoint
    latency_cycles: int
    layers: tuple[LayerFit, ...]
    points: tuple[DesignPoint, ...]
    tried: int

    @property
    def reuse_factors(self) -> Mapping[str, int]:
        """Layer name -> ReuseFactor of the chosen design."""
        return self.chosen.design.reuse_factors


def link(card: CardResources) -> tuple[tuple[int, float, str], ...]:
    """Return the bytes of a row, the GB/s and the name of each direction of the host's link, and of both together."""
    x, y = card.x_bytes, card.y_bytes
    return (x, card.h2c_gb_s, "host to card"), (y, card.c2h_gb_s, "card to host"), (x + y, card.both_gb_s, "the host's link")


def cheapest(points: Sequence[DesignPoint], rate_hz: float) -> DesignPoint | None:
    """Return the point that takes least of the card among those within a die that reach the rate; None if none does."""
    enough = [point for point in points if point.rate_hz >= rate_hz and not point.design.spans]
    return min(enough, key=lambda point: (point.fullest, -point.rate_hz), default=None)
