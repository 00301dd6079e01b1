# SPDX-License-Identifier: Apache-2.0
"""A card as monitoring sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple


class CardReadings(NamedTuple):
    """The current readings of a card; None, or no entry, for a quantity that the card does not report.

    Attributes:
        temperatures_c: sensor -> degrees Celsius.
        power_w, power_limit_w: in watts.
        xclbin_reloads: the number of times that this server has loaded an xclbin to it after the first one.
        bytes_to_card, bytes_from_card: copied by this server.
        held_bytes: in this server's buffers, by the tag of the memory bank.
    """

    temperatures_c: Mapping[str, float] = MappingProxyType({})
    power_w: float | None = None
    power_limit_w: float | None = None
    xclbin_reloads: int | None = None
    bytes_to_card: int | None = None
    bytes_from_card: int | None = None
    held_bytes: Mapping[str, int] = MappingProxyType({})


class Shortfall(NamedTuple):
    """How a model version on a card differs from what its own xclbin would give it, because the card has another one.

    Attributes:
        text: for operators.
        ends_with_versions: True if only other versions of the model are in the way.
    """

    text: str
    ends_with_versions: bool


@dataclass(frozen=True)
class CardStatus:
    """A card as monitoring sees it.

    Attributes:
        gpu_uuid: Triton's label; it does not change while the card stays in its PCIe slot. "" for a model that takes turns and
            has not been on a card yet.
        memory_bytes: the size of all banks, 0 if unknown.
        held_bytes: the part in this model version's buffers.
        read: read(max_age_s) returns readings at most that many seconds old. Any thread may call it, and it never takes long.
        simulated: the card is emulated; this machine computes the answers.
        shortfall: returns the present Shortfall of this model version, if any. Any thread may call it.
        away: the model takes turns and has left this card.
    """

    gpu_uuid: str
    name: str
    memory_bytes: int = 0
    held_bytes: int = 0
    read: Callable[[float], CardReadings] = field(default=lambda _max_age_s: CardReadings(), compare=False)
    simulated: bool = False
    shortfall: Callable[[], Shortfall | None] = field(default=lambda: None, compare=False)
    away: bool = False


class Residency(NamedTuple):
    """A model that takes turns on a card with others.

    Attributes:
        resident: it is on one now.
        loads: how often it came to a card.
        load_s: how long these loads took, in seconds.
        waits: requests that arrived while it was on no card.
        wait_s: the time with requests that waited for the card, the present wait included, in seconds; 0 for a model with a
            fallback backend, whose requests do not wait.
        longest_wait_s: the longest time that it waited for a card while requests waited, the present wait included, in seconds.
    """

    resident: bool
    loads: int = 0
    load_s: float = 0.0
    waits: int = 0
    wait_s: float = 0.0
    longest_wait_s: float = 0.0
