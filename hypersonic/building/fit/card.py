# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build --fit CARD`: the resources of a card that are free for an rf core, for hls/rf/fit/search.py.

On each die, compute units may take the planning limit (firmware/xclbin/connectivity.py) minus the memory controllers. Every
unit contains a shell, whose resources are assumed here, because they depend on the row and on the datatypes, and has an
interconnect to its memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypersonic.firmware.estimate.card import PORTS, ways
from hypersonic.firmware.estimate.memory import bank_timing
from hypersonic.firmware.estimate.rates import NETWORK_GBPS, card_rate, least_clocks
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.xclbin.connectivity import (
    BOUNDARY_WIRES,
    LIMITS_PERCENT,
    assign_banks,
    controllers,
    interconnect,
    most_units,
)
from hypersonic.hls.resources import KINDS, Amounts
from hypersonic.hls.rf.fit.design import CardResources, Fit
from hypersonic.hls.rf.fit.exchange import card_to_json, fit_from_json
from hypersonic.hls.rf.fit.text import fit_lines

#: the most of a die that may be filled, in per cent; lower planning limits still apply
FILL_PERCENT = 80

#: the share of the free LUTs and flip-flops to use, because hls/rf/stages/ estimates these by rules
_COUNTED_BY_RULES = {"lut": 0.95, "ff": 0.95}

#: a unit's shell with its number converters and registers at its AXI ports; FACILE's, with 18 FP32 numbers in a row, takes
#: 9,500 LUTs, 11,000 FFs and 22 RAMB36 (hls/zoo/facile/resources.json, firmware/kernel/slices.py)
SHELL = Amounts(lut=12_000, ff=12_000, bram36=22)


class FillError(ValueError):
    """The requested fill percentage is out of range."""


def card_of(platform: Platform, x_bytes: int = 0, y_bytes: int = 0, fill_percent: int = FILL_PERCENT) -> CardResources:
    """Return the card of a platform for the search.

    Args:
        x_bytes, y_bytes: bytes of a row on the wire; 0: unknown.
        fill_percent: the share of each die for units and memory controllers, unless the planning limit is lower.

    Raises:
        FillError: For a percentage outside 1 to 100.
        LinkError: For a card without memory.
    """
    if not 1 <= fill_percent <= 100:
        raise FillError(f"card {platform.name!r}: fill is {fill_percent} per cent, expected 1 to 100")
    dies = zip(platform.slrs, controllers(platform), strict=True)
    to_card, from_card = ways(platform)
    inputs, results = assign_banks(platform, 1, PORTS)[0]
    return CardResources(
        platform.name, tuple(_room(die, taken, fill_percent) for die, taken in dies), most_units(platform),
        float(platform.kernel_clock_mhz), SHELL + interconnect(platform), x_bytes, y_bytes,
        h2c_gb_s=to_card.total_gb_s, c2h_gb_s=from_card.total_gb_s, both_gb_s=platform.both_gb_s,
        bank_gb_s=0.0 if platform.host_memory else bank_timing(platform.memory[inputs.start]).mixed_gb_s,
        one_bank=inputs == results, boundary_wires=BOUNDARY_WIRES,
    )  # fmt: skip


@dataclass(frozen=True)
class FitOptions:
    """The options --fit, --fill and --network-gbps of `hypersonic build`.

    Attributes:
        card: a platform's name; "": no search.
    """

    card: str = ""
    fill_percent: int = FILL_PERCENT
    network_gbps: float = NETWORK_GBPS

    def as_json(self, wanted_hz: float = 0) -> str:
        """The card as JSON, for convert_model; "" without a card.

        Raises PlatformError, FillError.

        Args:
            wanted_hz: as in Card.
        """
        if not self.card:
            return ""
        card = card_of(find_platform(self.card), fill_percent=self.fill_percent)
        return json.dumps(card_to_json(replace(card, wanted_hz=wanted_hz)))


NO_FIT = FitOptions()


def show_fit(report: Mapping[str, Any], picture: Path, network_gbps: float = NETWORK_GBPS) -> tuple[list[str], int]:
    """Draw the picture of a search; return the lines of its tables, and the number of units of the chosen design.

    Args:
        report: a project's report with a "fit".
        picture: the PNG file to write.
    """
    from hypersonic.building.fit.picture import draw_fit  # loads matplotlib, which other builds do not need

    best = fit_from_json(report["fit"])
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw_fit(best, picture)
    return [*fit_lines(best), *rate_lines(best, network_gbps), f"picture: {picture}"], best.chosen.units


def rate_lines(best: Fit, network_gbps: float) -> list[str]:
    """Return lines with the chosen design's predicted rate on the card and its limits; none if a row's bytes are unknown."""
    card, row_bytes = best.card, (best.card.x_bytes, best.card.y_bytes)
    if not all(row_bytes):
        return []
    clocks = least_clocks(best.chosen.design.interval, row_bytes)
    platform = find_platform(card.name)
    return card_rate(platform, clocks, row_bytes, units=best.chosen.units, network_gbps=network_gbps).lines("inferences")


def _room(die: Amounts, taken: Amounts, fill_percent: int) -> Amounts:
    room = {}
    for name in KINDS:
        percent = min(fill_percent, getattr(LIMITS_PERCENT, name))
        free = getattr(die, name) * percent // 100 - getattr(taken, name)
        room[name] = max(0, int(free * _COUNTED_BY_RULES.get(name, 1)))
    return Amounts(**room)
