# SPDX-License-Identifier: Apache-2.0
"""The rate of a model on a card, simulated (card.py), and that of each part of the data's path alone.

::

    client --network--> server --PCIe--> memory bank --> kernel --> memory bank --PCIe--> server --network--> client

An event's bytes pass a memory bank twice: the host writes the inputs and the kernel reads them; the kernel writes the results
and the host reads them. On a DIMM, inputs and results share one bank. On HBM each port has channels of its own, and a buffer
is in one of them. As many bytes are read as written, in turn, and a bank carries less of such a mix than of reads alone
(memory.py). One run in flight pays only for the streams of its own stage: the host does not transfer while the unit computes.
Where the kernel reads and writes the host's memory, as on AWS F2, there is no bank.

The card's rate is that of its parts together, with some runs in flight on each unit. It may be lower than the lowest rate of a
part alone, because parts wait for each other. A simulated rate within half a per cent of that lowest rate is taken as equal.

Each limit names its source: who published the rate that it follows from (the card's file in platforms/), or that the rate is
assumed, as the kernel's clock and the network always are. Nothing was measured by this project. The server's processors are not
included, because no server with a card has been measured. The host driver has TRANSFERS_IN_FLIGHT in flight in each direction:
PCIe carries what so many reach, which is at most what all together do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.firmware.card_parameters import SLOTS
from hypersonic.firmware.estimate.card import PORTS, CardLoad, run_bank_s, simulate, ways
from hypersonic.firmware.estimate.memory import bank_timing
from hypersonic.firmware.platform import TRANSFERS_IN_FLIGHT, Platform
from hypersonic.firmware.xclbin.connectivity import assign_banks, most_units

#: the default rate of the server's network, in Gb/s
NETWORK_GBPS = 25.0

#: bytes that a kernel's memory port moves in one clock
BEAT_BYTES = 64

#: the part of a limit that stands for all parts of the card together
CARD = "card"

#: a simulated rate is taken as equal to that of a part alone if it is below it by at most this part
_EQUAL = 0.005


@dataclass(frozen=True)
class Limit:
    """The rate of one part of the path, in events per second.

    Attributes:
        what: the figures that it follows from, in words.
        source: who published the rate of transfer, or that from which it was modelled; empty if it is assumed.
        known: how the rate is known if there is a source: `published`, `modelled` or `simulated`.
    """

    part: str
    events_per_s: float
    what: str
    source: str = ""
    known: str = "published"

    @property
    def basis(self) -> str:
        """`assumed`, or how the rate is known, with the source."""
        return f"{self.known} ({self.source})" if self.source else "assumed"

    def __str__(self) -> str:
        return f"{self.what}, {self.basis}"


@dataclass(frozen=True)
class CardRate:
    """The rate of one model on a card.

    Attributes:
        limits: of each part of the path, and of the card with all its parts together, the lowest first.
        card_limit: the part that limits the card, or `runs in flight`.
    """

    platform: str
    limits: tuple[Limit, ...]
    card_limit: str = ""

    @property
    def binding(self) -> Limit:
        """The lowest limit: the part that limits the rate."""
        return self.limits[0]

    @property
    def events_per_s(self) -> float:
        """The predicted rate; the clock and the network are assumed."""
        return self.binding.events_per_s

    @property
    def limited_by(self) -> str:
        """The name of the part that limits the rate; for the whole card, that of its part."""
        return self.card_limit if self.binding.part == CARD else self.binding.part

    def of(self, part: str) -> float:
        """The rate of one part alone, in events per second. Raises KeyError for a part that this card does not have."""
        return {limit.part: limit.events_per_s for limit in self.limits}[part]

    def lines(self, unit: str = "events") -> list[str]:
        """A headline, and one line for each limit.

        Args:
            unit: the name of what is counted, in the plural.
        """
        head = f"{self.events_per_s:,.0f} {unit}/s on one {self.platform}, limited by {the(self.limited_by)}: a prediction"
        return [head, *(f"  {limit.events_per_s:>14,.0f}  {limit.part}: {limit}" for limit in self.limits)]

    def as_data(self) -> dict[str, Any]:
        """The rate and its limits as a JSON object."""
        return {
            "platform": self.platform,
            "events_per_s": self.events_per_s,
            "limited_by": self.limited_by,
            "limits": [
                {"part": limit.part, "events_per_s": limit.events_per_s, "what": limit.what, "basis": limit.basis}
                for limit in self.limits
            ],
        }


def card_rate(
    platform: Platform,
    clocks: float,
    event_bytes: tuple[int, int],
    *,
    units: int = 1,
    runs: int = SLOTS,
    network_gbps: float = NETWORK_GBPS,
    kernel_mhz: float = 0.0,
) -> CardRate:
    """The rate of `units` compute units on one card.

    A GB is 10**9 bytes.

    Args:
        clocks: of one event in one unit.
        event_bytes: sizes of an event's inputs and of its results.
        runs: that the host has in flight on each unit.
        network_gbps: rate of the server's network in each direction, in 10**9 bits per second.
        kernel_mhz: 0 means the card's default.

    Raises:
        ValueError: Unless clocks, bytes, units, runs and network are above 0.
        LinkError: For a card without memory.
    """
    x, y = event_bytes
    if min(clocks, x, y, units, runs, network_gbps) <= 0:
        got = f"clocks is {clocks}, event_bytes {event_bytes}, units {units}, runs {runs}, network_gbps {network_gbps}"
        raise ValueError(f"{got}; expected all of them above 0")
    mhz = kernel_mhz or platform.kernel_clock_mhz
    each = "1 compute unit" if units == 1 else f"{units} compute units"
    parts = [
        Limit("kernel", units * mhz * 1e6 / clocks, f"{clocks:,.0f} clocks at {mhz:g} MHz, {each}"),
        *_pcie(platform, event_bytes),
        *_bank(platform, event_bytes, units, runs),
    ]
    least = min(parts, key=lambda part: part.events_per_s)
    whole = simulate(platform, CardLoad(clocks / mhz / 1e6, x, y, min(units, most_units(platform)), runs))
    equal = whole.runs_per_s >= (1 - _EQUAL) * least.events_per_s
    by, rate = (least.part, least.events_per_s) if equal else (whole.limited_by, whole.runs_per_s)
    each = f"{runs} run{'s' * (runs > 1)} a unit, limited by {the(by)}"
    limits = [
        Limit("network", network_gbps * 1e9 / 8 / max(x, y), f"{network_gbps:g} Gb/s"),
        Limit(CARD, rate, each, "bench card", "simulated"),
        *parts,
    ]
    return CardRate(platform.name, tuple(sorted(limits, key=lambda limit: limit.events_per_s)), by)


def the(part: str) -> str:
    """A part's name in a sentence."""
    return part if part.startswith("PCIe") else f"the {part}"


def least_clocks(ii: int, row_bytes: tuple[int, int]) -> float:
    """The least clocks per row of a kernel: its core's interval, or the time to read or write the row at 64 bytes per clock.

    Args:
        ii: the core's interval in clocks.
        row_bytes: of the inputs and of the results.
    """
    return max(ii, *(size / BEAT_BYTES for size in row_bytes))


def alone_s(platform: Platform, kernel_s: float, event_bytes: tuple[int, int]) -> float:
    """The seconds of an event that has the card to itself: the transfer of its inputs, its kernel time, that of its results."""
    to_card, from_card = ways(platform)
    return event_bytes[0] / (to_card.transfer_gb_s * 1e9) + kernel_s + event_bytes[1] / (from_card.transfer_gb_s * 1e9)


def _pcie(platform: Platform, event_bytes: tuple[int, int]) -> list[Limit]:
    limits = [
        Limit(
            way.part, way.total_gb_s * 1e9 / size,
            f"{platform.pcie}, {way.total_gb_s:g} GB/s, {TRANSFERS_IN_FLIGHT} transfers in flight", way.source,
        )
        for way, size in zip(ways(platform), event_bytes, strict=True)
    ]  # fmt: skip
    if platform.both_gb_s:
        what = f"{platform.pcie}, {platform.both_gb_s:g} GB/s both together"
        limits.append(Limit("PCIe both ways", platform.both_gb_s * 1e9 / sum(event_bytes), what, platform.transfer_source))
    return limits


def _bank(platform: Platform, event_bytes: tuple[int, int], units: int, runs: int) -> list[Limit]:
    if platform.host_memory:
        return []
    with_bank = min(units, most_units(platform))  # the other units are on further cards with banks of their own
    inputs, results = assign_banks(platform, with_bank, PORTS)[0]
    bank = platform.memory[inputs.start]
    one_bank = inputs == results
    passing = 2 * sum(event_bytes) if one_bank else 2 * max(event_bytes)
    timing = bank_timing(bank)
    gb_s = timing.mixed_gb_s if runs > 1 else passing / run_bank_s(timing, event_bytes, one_bank=one_bank) / 1e9
    what = f"{bank.kind} {'bank' if bank.kind == 'DDR4' else 'channel'}, 2 passes at {gb_s:.1f} GB/s"
    return [Limit("memory bank", with_bank * gb_s * 1e9 / passing, what, bank.source, "modelled")]
