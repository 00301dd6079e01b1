# SPDX-License-Identifier: Apache-2.0
"""The AWS F2 shell's PCIM interface for cocotb benches: host memory that checks each rule of the shell.

Reads of different IDs are answered in any order and interleaved beat by beat; the beats of one burst stay in order. The
rules are: aligned INCR bursts of full beats that do not cross 4 KiB; at most 32 reads in flight, no two with the same ID, and
data and responses taken at once; write data never offered before their address, and no pause between an address and the end
of its data; strobes without holes (axi_bus.py).
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.rtl.axi_bus import Burst, MemoryBehaviour, WriteMemory, WriteMonitor, _check_address
from tests.support.rtl.bus import Channel, ProtocolError

#: the most reads in flight at once
MOST_READS = 32
#: the most clocks from AW to the first beat of W
FIRST_BEAT_CLOCKS = 2

_ADDRESS = ("addr", "len", "size", "burst", "id")


class PcimReads:
    """Takes AR and answers with R from `memory`. Raises ProtocolError for a broken rule.

    asked has every burst requested, in order; most is the largest number in flight at once; overtaken counts the beats that
    were sent before a beat of an older burst. With disorder False, bursts are answered in order.
    """

    def __init__(self, dut: Any, prefix: str, memory: bytearray, rng: random.Random, behaviour: MemoryBehaviour) -> None:
        self._names = {f"{prefix}_ar{name}": f"ar{name}" for name in _ADDRESS}
        self._ar = Channel(dut, f"{prefix} AR", f"{prefix}_arvalid", f"{prefix}_arready", tuple(self._names))
        self._port = {name: getattr(dut, f"{prefix}_{name}") for name in ("rdata", "rid", "rresp", "rlast", "rvalid", "rready")}
        self._arready = getattr(dut, f"{prefix}_arready")
        self._beat_bytes = len(self._port["rdata"]) // 8
        self._rng, self._clock = rng, 0
        self._shown: Burst | None = None
        self._open: list[Burst] = []
        self.memory, self.behaviour = memory, behaviour
        self.max_beats = 64
        self.disorder = True
        self.asked: list[Burst] = []
        self.most = 0
        self.overtaken = 0

    def drive(self) -> None:
        """Drive ARREADY, and offer a beat of any burst whose latency is over."""
        self._clock += 1
        self._arready.value = int(self._rng.random() >= self.behaviour.pause)
        if self._shown is not None:
            return
        ready = [burst for burst in self._open if burst.ready_clock <= self._clock]
        if ready and self._rng.random() >= self.behaviour.pause:
            self._shown = self._rng.choice(ready) if self.disorder else ready[0]
            self._show(self._shown)
        self._port["rvalid"].value = int(self._shown is not None)

    def _show(self, burst: Burst) -> None:
        address = burst.address + burst.done * self._beat_bytes
        self._port["rdata"].value = int.from_bytes(self.memory[address : address + self._beat_bytes], "little")
        self._port["rid"].value = burst.id
        self._port["rresp"].value = 2 if address in self.behaviour.errors else 0
        self._port["rlast"].value = int(burst.done == burst.beats - 1)
        self.overtaken += burst is not self._open[0]

    def sample(self) -> None:
        """Accept an address and retire a beat. Raises ProtocolError, also when RREADY is low while data wait."""
        if (item := self._ar.sample()) is not None:
            self._take({self._names[name]: value for name, value in item.items()})
        if self._shown is not None:
            if self._port["rready"].value != 1:
                raise ProtocolError("pcim R: RREADY is low while data wait")
            self._shown.done += 1
            if self._shown.done == self._shown.beats:
                self._open.remove(self._shown)
            self._shown = None

    def _take(self, item: dict[str, int]) -> None:
        burst = _check_address("ar", item, self._beat_bytes, self.max_beats)
        burst.id = item["arid"]
        if any(other.id == burst.id for other in self._open):
            raise ProtocolError(f"pcim AR: ID {burst.id} is that of a read on its way")
        # random latency, so that a burst may be answered before an older one
        burst.ready_clock = self._clock + self.behaviour.latency + self._rng.randrange(self.behaviour.latency + 1)
        self._open.append(burst)
        self.asked.append(burst)
        self.most = max(self.most, len(self._open))
        if len(self._open) > MOST_READS:
            raise ProtocolError(f"pcim AR: {len(self._open)} reads are on their way, expected at most {MOST_READS}")

    def reset(self) -> None:
        """Drop every burst in flight; the counters stay."""
        self._open.clear()
        self._shown = None
        self._ar.reset()
        self._port["rvalid"].value = 0
        self._arready.value = 0


class PcimWrites(WriteMemory):
    """Stores AW and W into `memory` and answers with B and the burst's ID, in order. Raises ProtocolError for a broken rule.

    monitor is the WriteMonitor of the same port.
    """

    def __init__(self, dut: Any, prefix: str, memory: bytearray, rng: random.Random, behaviour: MemoryBehaviour) -> None:
        super().__init__(dut, prefix, memory, rng, behaviour)
        self.monitor = WriteMonitor(dut, prefix, self._beat_bytes)
        self._pause = 0

    def sample(self) -> None:
        """Accept an address, store a beat and retire a response. Raises ProtocolError."""
        self.monitor.sample()
        self._check_pause()
        super().sample()

    def _check_pause(self) -> None:
        """Check that data follow their address within FIRST_BEAT_CLOCKS, and then one beat in each clock."""
        offers = self._port.wvalid.value == 1
        self._pause = 0 if offers or not self._open else self._pause + 1
        if self._pause > (0 if self._open and self._open[0].done else FIRST_BEAT_CLOCKS):
            raise ProtocolError(f"pcim W: a pause of {self._pause} clocks between an address and the end of its data")

    def reset(self) -> None:
        """Drop every burst and response; `taken` stays."""
        super().reset()
        self._pause = 0
        self.monitor.reset()
