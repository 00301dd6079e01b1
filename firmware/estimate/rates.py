# SPDX-License-Identifier: Apache-2.0
"""The rate of a model on a card: the lowest rate among the parts of the data's path, and the part that limits it.

::

    client --network--> server --PCIe--> memory bank --> kernel --> memory bank --PCIe--> server --network--> client

An event's bytes pass a memory bank twice: the host writes the inputs and the kernel reads them; the kernel writes the results
and the host reads them. On a DIMM, inputs and results share one bank. On HBM each port has channels of its own, and a buffer
is in one of them. Where the kernel reads and writes the host's memory, as on AWS F2, there is no bank.

A limit counts as measured where the rate that it follows from has been measured (the card's file in platforms/ names the
source). The kernel's clock and the network are always assumed. The server's processors are not included, because no server
with a card has been measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.firmware.platform import MemoryBank, Platform
from hypersonic.firmware.xclbin.connectivity import assign_banks, most_units

#: the default rate of the server's network, in Gb/s
NETWORK_GBPS = 25.0

#: bytes that a kernel's memory port moves in one clock
BEAT_BYTES = 64

#: the m_axi ports of a kernel that rows pass through: one for inputs, one for results
_PORTS = 2


@dataclass(frozen=True)
class Limit:
    """The rate of one part of the path, in events per second.

    Attributes:
        what: the figures that it follows from, in words.
        measured: True if the rate of transfer was measured, False if assumed.
    """

    part: str
    events_per_s: float
    what: str
    measured: bool

    @property
    def basis(self) -> str:
        """`measured` or `assumed`."""
        return "measured" if self.measured else "assumed"

    def __str__(self) -> str:
        return f"{self.what}, {self.basis}"


@dataclass(frozen=True)
class CardRate:
    """The rate of one model on a card.

    Attributes:
        limits: of each part of the path, the lowest first.
    """

    platform: str
    limits: tuple[Limit, ...]

    @property
    def binding(self) -> Limit:
        """The lowest limit: the part that limits the rate."""
        return self.limits[0]

    @property
    def events_per_s(self) -> float:
        """The predicted rate; the clock and the network are assumed."""
        return self.binding.events_per_s

    def of(self, part: str) -> float:
        """The rate of one part alone, in events per second. Raises KeyError for a part that this card does not have."""
        return {limit.part: limit.events_per_s for limit in self.limits}[part]

    def lines(self, unit: str = "events") -> list[str]:
        """A headline, and one line for each limit.

        Args:
            unit: the name of what is counted, in the plural.
        """
        head = f"{self.events_per_s:,.0f} {unit}/s on one {self.platform}, limited by the {self.binding.part}: a prediction"
        return [head, *(f"  {limit.events_per_s:>14,.0f}  {limit.part}: {limit}" for limit in self.limits)]

    def as_data(self) -> dict[str, Any]:
        """The rate and its limits as a JSON object."""
        return {
            "platform": self.platform,
            "events_per_s": self.events_per_s,
            "limited_by": self.binding.part,
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
    network_gbps: float = NETWORK_GBPS,
    kernel_mhz: float = 0.0,
) -> CardRate:
    """The rate of `units` compute units on one card.

    A GB is 10**9 bytes.

    Args:
        clocks: of one event in one unit.
        event_bytes: sizes of an event's inputs and of its results.
        network_gbps: rate of the server's network in each direction, in 10**9 bits per second.
        kernel_mhz: 0 means the card's default.

    Raises:
        ValueError: Unless clocks, bytes, units and network are above 0.
        LinkError: For a card without memory.
    """
    x, y = event_bytes
    if min(clocks, x, y, units, network_gbps) <= 0:
        got = f"clocks is {clocks}, event_bytes {event_bytes}, units {units}, network_gbps {network_gbps}"
        raise ValueError(f"{got}; expected all of them above 0")
    mhz = kernel_mhz or platform.kernel_clock_mhz
    each = "1 compute unit" if units == 1 else f"{units} compute units"
    limits = [
        Limit("kernel", units * mhz * 1e6 / clocks, f"{clocks:,.0f} clocks at {mhz:g} MHz, {each}", measured=False),
        *_pcie(platform, x, y),
        *_bank(platform, x, y, units),
        Limit("network", network_gbps * 1e9 / 8 / max(x, y), f"{network_gbps:g} Gb/s", measured=False),
    ]
    return CardRate(platform.name, tuple(sorted(limits, key=lambda limit: limit.events_per_s)))


def least_clocks(ii: int, row_bytes: tuple[int, int]) -> float:
    """The least clocks per row of a kernel: its core's interval, or the time to read or write the row at 64 bytes per clock.

    Args:
        ii: the core's interval in clocks.
        row_bytes: of the inputs and of the results.
    """
    return max(ii, *(size / BEAT_BYTES for size in row_bytes))


def _pcie(platform: Platform, x: int, y: int) -> list[Limit]:
    ways = (("PCIe to the card", "h2c_gb_s", platform.h2c_gb_s, x), ("PCIe from the card", "c2h_gb_s", platform.c2h_gb_s, y))
    return [
        Limit(part, gb_s * 1e9 / size, f"{platform.pcie}, {gb_s:g} GB/s", measured=f"pcie.{field}" not in platform.unverified)
        for part, field, gb_s, size in ways
    ]


def _bank(platform: Platform, x: int, y: int, units: int) -> list[Limit]:
    if platform.host_memory:
        return []
    with_bank = min(units, most_units(platform))  # the other units are on further cards with banks of their own
    inputs, results = assign_banks(platform, with_bank, _PORTS)[0]
    bank = platform.memory[inputs.start]
    passing = 2 * (x + y) if inputs == results else 2 * max(x, y)
    peak = with_bank * bank.peak_gb_s * 1e9 / passing
    where = f"{bank.kind} {'bank' if bank.kind == 'DDR4' else 'channel'}, passed twice"
    if not bank.measured_gb_s:
        return [Limit("memory bank", peak, f"{where}, {bank.peak_gb_s:g} GB/s at its peak", measured=False)]
    measured = peak * bank.measured_gb_s / bank.peak_gb_s
    return [Limit("memory bank", measured, f"{where}, {_rates(bank, peak)}", measured=True)]


def _rates(bank: MemoryBank, peak: float) -> str:
    return f"{bank.measured_gb_s:g} GB/s ({peak:,.0f} at its peak of {bank.peak_gb_s:g})"
