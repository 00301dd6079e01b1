# SPDX-License-Identifier: Apache-2.0
"""A card as monitoring sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple


class CardReadings(NamedTuple):
    """What a card tells of itself just now; None, or no entry, where it does not. temperatures_c: sensor -> degrees Celsius.

    xclbin_reloads: how often this server loaded an xclbin to it after the first one.
    """

    temperatures_c: Mapping[str, float] = MappingProxyType({})
    power_w: float | None = None
    power_limit_w: float | None = None
    xclbin_reloads: int | None = None


@dataclass(frozen=True)
class Card:
    """A card as monitoring sees it. gpu_uuid: Triton's label; stable as long as the card stays in its slot.

    memory_bytes: of all its banks, 0 = not known; held_bytes: of them in this model version's buffers. read(max_age_s): any
    thread may ask, it gives what was read within that many seconds or reads again, and never takes long.
    """

    gpu_uuid: str
    name: str
    memory_bytes: int = 0
    held_bytes: int = 0
    read: Callable[[float], CardReadings] = field(default=lambda _max_age_s: CardReadings(), compare=False)
