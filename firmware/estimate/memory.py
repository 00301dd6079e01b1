# SPDX-License-Identifier: Apache-2.0
"""The rate of a memory bank for a mix of reads and writes: a model of row misses, refresh and turnaround.

The bytes of a bank move in bursts of 4 KiB, the longest that AXI4 allows. A burst takes its bytes at the bank's peak, and

- a row miss, if another stream had the bank before it, or its own stream comes to another row: precharge, activate, and after a
  write the write recovery. A miss takes what the published rate of reads alone or writes alone leaves after refresh;
- the turnaround of the data bus between a read and a write, from JESD79-4 for DDR4-2400 CL17: tWTR_L + CL = 21.7 ns after a
  write, two clocks after a read;
- its part of refresh, tRFC every tREFI, 350 ns every 7.8 us for the DDR4 dies of 8 Gb, 260 ns every 3.9 us for HBM2.

Published are reads and writes alone. A mix is what this model makes of them: nobody has published one for these cards, and none
was measured here. Where a card's file has no published rate, that of the same kind of memory on another card is taken, in
proportion to the peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypersonic.firmware.platform import MemoryBank

BURST_BYTES = 4096

#: the turnaround of the data bus in ns: from a write to a read, and from a read to a write
_TO_READ_NS, _TO_WRITE_NS = 21.7, 1.7


@dataclass(frozen=True)
class _Kind:
    """A kind of memory.

    Attributes:
        row_bytes: that one stream reads before it misses a row: a row of a DIMM; in HBM the 16 open rows of 1 KiB.
        read, write: published rates as a part of the peak, of another card with this memory.
    """

    row_bytes: int
    refresh_ns: float
    refresh_every_ns: float
    read: float
    write: float


_KINDS = {
    "DDR4": _Kind(8192, 350.0, 7800.0, 16.8 / 19.2, 15.2 / 19.2),
    "HBM": _Kind(16_384, 260.0, 3900.0, 13.1 / 14.4, 13.1 / 14.4),
}


@dataclass(frozen=True)
class BankTiming:
    """The time that bytes take in a bank, in ns.

    Attributes:
        byte_ns: of a byte at the peak.
        read_miss_ns, write_miss_ns: of a row miss.
        row_bytes: that one stream moves before it misses a row.
        refresh: the part of the time in which the bank refreshes.
    """

    byte_ns: float
    read_miss_ns: float
    write_miss_ns: float
    row_bytes: int
    refresh: float

    @property
    def read_gb_s(self) -> float:
        """One stream of reads alone."""
        return self._alone(self.read_miss_ns)

    @property
    def write_gb_s(self) -> float:
        """One stream of writes alone."""
        return self._alone(self.write_miss_ns)

    @property
    def mixed_gb_s(self) -> float:
        """As many bytes read as written, in turn: what a bank carries in which every byte is written once and read once."""
        return 2 / (self.burst_ns(writes=True) + self.burst_ns(writes=False) + self.turnaround_ns) * BURST_BYTES

    @property
    def turnaround_ns(self) -> float:
        """From reads to writes and back, with refresh."""
        return (_TO_READ_NS + _TO_WRITE_NS) / (1 - self.refresh)

    def burst_ns(self, *, writes: bool) -> float:
        """A burst after another stream's, with refresh and without turnaround."""
        miss_ns = self.write_miss_ns if writes else self.read_miss_ns
        return (BURST_BYTES * self.byte_ns + miss_ns) / (1 - self.refresh)

    def _alone(self, miss_ns: float) -> float:
        return self.row_bytes * (1 - self.refresh) / (self.row_bytes * self.byte_ns + miss_ns)


def bank_timing(bank: MemoryBank) -> BankTiming:
    """The timing of a bank, with the misses that its published rates imply."""
    kind = _KINDS[bank.kind]
    refresh, byte_ns = kind.refresh_ns / kind.refresh_every_ns, 1 / bank.peak_gb_s

    def miss_ns(gb_s: float) -> float:
        return max(0.0, kind.row_bytes * ((1 - refresh) / gb_s - byte_ns))

    read, write = bank.read_gb_s or kind.read * bank.peak_gb_s, bank.write_gb_s or kind.write * bank.peak_gb_s
    return BankTiming(byte_ns, miss_ns(read), miss_ns(write), kind.row_bytes, refresh)
