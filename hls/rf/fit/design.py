# SPDX-License-Identifier: Apache-2.0
"""The room on a card for compute units, the designs that fit it, and the one that is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.layers import WeightsIn

#: a layer's multipliers that rest longer than this are said to be coarse
BUSY = 0.85


@dataclass(frozen=True)
class Card:
    """The room on a card for compute units.

    dies: what units may take of each die. units: the most there are memories for. clock_mhz: the kernel clock, to turn clocks
    into rates. shell: what every unit takes besides its core. x_bytes, y_bytes: of a row on the wire, 0 where not to be looked
    at. bus_bytes: what a unit's memory moves in a clock, each way. h2c_gb_s, c2h_gb_s: what the host moves to the card and
    back, 0 where not known.
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

    @property
    def whole(self) -> Amounts:
        return sum(self.dies, NOTHING)


@dataclass(frozen=True)
class Design:
    """One compute unit. interval: clocks from row to row. unit: what it takes, its shell as well. most_units: how many of it
    the card holds, 0 for none. spans: larger than a die, so that it lies in several.
    """

    interval: int
    unit: Amounts
    most_units: int
    spans: bool
    reuse_factors: Mapping[str, int]
    weights_in: Mapping[str, WeightsIn]


@dataclass(frozen=True)
class Point:
    """So many units of a design. rate_hz: rows a second of them all; bound: what limits it. fullest: the largest share of what
    the card has for units; kind: of what."""

    design: Design
    units: int
    rate_hz: float
    bound: str
    fullest: float
    kind: str


@dataclass(frozen=True)
class LayerFit:
    """A layer with multipliers in the design taken. interval: clocks of a row in this layer; first_out, last_out: clocks from a
    row's first beat into the network; busy: of the network's interval. coarse: multipliers rest, because
    the next slower shape would not keep up.
    """

    name: str
    reuse_factor: int
    lanes: tuple[int, int]  # inputs and outputs a clock
    multipliers: int
    interval: int
    first_out: int
    last_out: int
    busy: float
    weights_in: WeightsIn
    coarse: bool


@dataclass(frozen=True)
class Fit:
    """chosen: one of points. points: none is beaten by another in both rate and fullest share, fastest first. latency_cycles:
    of the network, of a row that nothing holds up. tried: designs that were sketched."""

    network: str
    card: Card
    chosen: Point
    latency_cycles: int
    layers: tuple[LayerFit, ...]
    points: tuple[Point, ...]
    tried: int

    @property
    def reuse_factors(self) -> Mapping[str, int]:
        """hls4ml's LayerName -> ReuseFactor."""
        return self.chosen.design.reuse_factors
