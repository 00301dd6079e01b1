# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build --fit CARD`: what a card has for units of an rf core, for the search in hls/rf/fit/search.py.

Of each die units may take the planning limit (firmware/xclbin/connectivity.py) less the memory's controller. The shell is a
part of every unit; what it takes is assumed here, because it depends on the row and on the wire's types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.estimate.rates import NETWORK_GBPS, card_rate, least_clocks
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.xclbin.connectivity import LIMITS_PERCENT, controllers, most_units
from hypersonic.hls.resources import KINDS, Amounts
from hypersonic.hls.rf.fit.design import Card, Fit
from hypersonic.hls.rf.fit.exchange import card_to_json, fit_from_json
from hypersonic.hls.rf.fit.text import fit_lines

#: of a die, at most; the planning limits below it stay
FILL_PERCENT = 80

#: of the room for LUTs and flip-flops a part is left, because hls/rf/stages/ counts them by rules
_COUNTED_BY_RULES = {"lut": 0.95, "ff": 0.95}

#: a unit's shell with its converters of numbers: FACILE's, 14 numbers a beat in FP32, takes 9 100 LUTs, 5 100 FFs, 22 RAMB36
SHELL = Amounts(lut=12_000, ff=8_000, dsp=2, bram36=22)


class FillError(ValueError):
    """No card is filled to so much: what was asked for, what may be."""


def card_of(platform: Platform, x_bytes: int = 0, y_bytes: int = 0, fill_percent: int = FILL_PERCENT) -> Card:
    """x_bytes, y_bytes: of a row on the wire. fill_percent: of each die that units and the memory's controllers may take, where
    the planning limit is not lower. Raises FillError for a percentage that is none, LinkError for a card without memory."""
    if not 1 <= fill_percent <= 100:
        raise FillError(f"card {platform.name!r} is to be filled to {fill_percent} per cent, expected 1 to 100")
    dies = zip(platform.slrs, controllers(platform), strict=True)
    return Card(
        platform.name, tuple(_room(die, taken, fill_percent) for die, taken in dies), most_units(platform),
        float(platform.kernel_clock_mhz), SHELL, x_bytes, y_bytes,
        h2c_gb_s=platform.h2c_gb_s, c2h_gb_s=platform.c2h_gb_s,
    )  # fmt: skip


@dataclass(frozen=True)
class FitOptions:
    """`hypersonic build --fit CARD --fill PERCENT --network-gbps GBPS`; card "": no search."""

    card: str = ""
    fill_percent: int = FILL_PERCENT
    network_gbps: float = NETWORK_GBPS

    def as_json(self) -> str:
        """What the conversion is told of the card; "" for none. Raises PlatformError, FillError."""
        if not self.card:
            return ""
        return json.dumps(card_to_json(card_of(find_platform(self.card, retired_too=True), fill_percent=self.fill_percent)))


NO_FIT = FitOptions()


def show_fit(report: Mapping[str, Any], picture: Path, network_gbps: float = NETWORK_GBPS) -> tuple[list[str], int]:
    """A project's report that has a "fit": the tables, the picture drawn, and how many units the design has."""
    from hypersonic.building.fit_picture import draw_fit  # matplotlib, which a build without a search does not need

    best = fit_from_json(report["fit"])
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw_fit(best, picture)
    return [*fit_lines(best), *rate_lines(best, network_gbps), f"picture: {picture}"], best.chosen.units


def rate_lines(best: Fit, network_gbps: float) -> list[str]:
    """What the card carries of the design taken, with bank and network; nothing where a row's bytes are not known."""
    card, row_bytes = best.card, (best.card.x_bytes, best.card.y_bytes)
    if not all(row_bytes):
        return []
    clocks = least_clocks(best.chosen.design.interval, row_bytes)
    platform = find_platform(card.name, retired_too=True)
    return card_rate(platform, clocks, row_bytes, units=best.chosen.units, network_gbps=network_gbps).lines("inferences")


def _room(die: Amounts, taken: Amounts, fill_percent: int) -> Amounts:
    room = {}
    for name in KINDS:
        percent = min(fill_percent, getattr(LIMITS_PERCENT, name))
        free = getattr(die, name) * percent // 100 - getattr(taken, name)
        room[name] = max(0, int(free * _COUNTED_BY_RULES.get(name, 1)))
    return Amounts(**room)
