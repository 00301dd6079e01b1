# SPDX-License-Identifier: Apache-2.0
"""The AWS F2 shell's PCIM interface for cocotb benches: host memory that checks each rule of the shell.

Reads of different IDs are answered in any order and interleaved beat by beat; the beats of one burst stay in order. The
rules are: aligned INCR bursts of full beats that do not cross 4 KiB; at most 32 reads in flight, no two with the same ID, and
data and responses taken at once; write data never before their address, and no pause between an address and the end of its
data; strobes without holes (sim/axi_bus.py).
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from hypersonic.sim.axi_bus import Burst, MemoryBehaviour, WriteMonitor, _check_address
from hypersonic.sim.bus import Channel, ProtocolError

#: the most reads in flight at once
MOST_READS = 32
#: the most clocks from AW to the first beat of W
FIRST_BEAT_CLOCKS = 2

_ADDRESS = ("addr", "len", "size", "burst", "id")


@dataclass
class Tagged:
    """A burst and its ID."""

    id: int
    burst: Burst


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
        self._shown: Tagged | None = None
        self._open: list[Tagged] = []
        self.memory, self.behaviour = memory, behaviour
        self.max_beats = 64
        self.disorder = True
        self.asked: list[Tagged] = []
        self.most = 0
        self.overtaken = 0

    def drive(self) -> None:
        """Drive ARREADY, and offer a beat of any burst whose latency is over."""
        self._clock += 1
        self._arready.value = int(self._rng.random() >= self.behaviour.pause)
        if self._shown is not None:
            return
        ready = [tagged for tagged in self._open if tagged.burst.ready_clock <= self._clock]
        if ready and self._rng.random() >= self.behaviour.pause:
            self._shown = self._rng.choice(ready) if self.disorder else ready[0]
            self._show(self._shown)
        self._port["rvalid"].value = int(self._shown is not None)

    def _show(self, tagged: Tagged) -> None:
        burst = tagged.burst
        address = burst.address + burst.done * self._beat_bytes
        self._port["rdata"].value = int.from_bytes(self.memory[address : address + self._beat_bytes], "little")
        self._port["rid"].value = tagged.id
        self._port["rresp"].value = 2 if address in self.behaviour.errors else 0
        self._port["rlast"].value = int(burst.done == burst.beats - 1)
        self.overtaken += tagged is not self._open[0]

    def sample(self) -> None:
        """Accept an address and retire a beat. Raises ProtocolError, also when RREADY is low while data wait."""
        if (item := self._ar.sample()) is not None:
            self._take({self._names[name]: value for name, value in item.items()})
        if self._shown is not None:
            if self._port["rready"].value != 1:
                raise ProtocolError("pcim R: RREADY is low while data wait")
            self._shown.burst.done += 1
            if self._shown.burst.done == self._shown.burst.beats:
                self._open.remove(self._shown)
            self._shown = None

    def _take(self, item: dict[str, int]) -> None:
        burst = _check_address("ar", item, self._beat_bytes, self.max_beats)
        tagged = Tagged(item["arid"], burst)
        if any(other.id == tagged.id for other in self._open):
            raise ProtocolError(f"pcim AR: ID {tagged.id} is that of a read on its way")
        # random latency, so that a burst may be answered before an older one
        burst.ready_clock = self._clock + self.behaviour.latency + self._rng.randrange(self.behaviour.latency + 1)
        self._open.append(tagged)
        self.asked.append(tagged)
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


class PcimWrites:
    """Stores AW and W into `memory` and answers with B and the burst's ID, in order. Raises ProtocolError for a broken rule.

    bursts has the (ID, byte address, beats) of every burst; monitor is the WriteMonitor of the same port.
    """

    def __init__(self, dut: Any, prefix: str, memory: bytearray, rng: random.Random, behaviour: MemoryBehaviour) -> None:
        names = ("awaddr", "awlen", "awid", "awvalid", "awready", "wdata", "wstrb", "wlast", "wvalid", "wready")
        self._port = {name: getattr(dut, f"{prefix}_{name}") for name in (*names, "bid", "bresp", "bvalid", "bready")}
        self._beat_bytes = len(self._port["wdata"]) // 8
        self.monitor = WriteMonitor(dut, prefix, self._beat_bytes)
        self._rng, self._clock = rng, 0
        self._open: deque[Tagged] = deque()
        self._answers: deque[Tagged] = deque()
        self._shown = False
        self._pause = 0
        self.memory, self.behaviour = memory, behaviour
        self.bursts: list[tuple[int, int, int]] = []

    def drive(self) -> None:
        """Drive AWREADY, WREADY and, once a finished burst's latency is over, its B."""
        port, rng, pause = self._port, self._rng, self.behaviour.pause
        self._clock += 1
        port["awready"].value = int(rng.random() >= pause)
        port["wready"].value = int(rng.random() >= pause)
        if self._shown:
            return
        self._shown = bool(self._answers) and self._answers[0].burst.ready_clock <= self._clock and rng.random() >= pause
        port["bvalid"].value = int(self._shown)
        if self._shown:
            port["bid"].value = self._answers[0].id
            port["bresp"].value = 2 if self._answers[0].burst.address in self.behaviour.errors else 0

    def sample(self) -> None:
        """Accept an address, store a beat and retire a response. Raises ProtocolError."""
        self.monitor.sample()
        self._check_pause()
        port = self._port
        if port["wvalid"].value == 1 and port["wready"].value == 1:
            self._store(int(port["wdata"].value), int(port["wstrb"].value))
        if port["awvalid"].value == 1 and port["awready"].value == 1:
            self._take(int(port["awid"].value), int(port["awaddr"].value), int(port["awlen"].value) + 1)
        if self._shown and port["bready"].value == 1:
            self._shown = False
            self._answers.popleft()

    def _take(self, identifier: int, address: int, beats: int) -> None:
        self._open.append(Tagged(identifier, Burst(address, beats, 0)))
        self.bursts.append((identifier, address, beats))

    def _check_pause(self) -> None:
        """Check that data follow their address within FIRST_BEAT_CLOCKS, and then one beat in each clock."""
        offers = self._port["wvalid"].value == 1
        self._pause = 0 if offers or not self._open else self._pause + 1
        if self._pause > (0 if self._open and self._open[0].burst.done else FIRST_BEAT_CLOCKS):
            raise ProtocolError(f"pcim W: a pause of {self._pause} clocks between an address and the end of its data")

    def _store(self, data: int, strobes: int) -> None:
        burst = self._open[0].burst
        address = burst.address + burst.done * self._beat_bytes
        for byte in range(strobes.bit_length()):
            if strobes >> byte & 1:
                self.memory[address + byte] = data >> (8 * byte) & 0xFF
        burst.done += 1
        if burst.done == burst.beats:
            burst.ready_clock = self._clock + self.behaviour.latency
            self._answers.append(self._open.popleft())

    def reset(self) -> None:
        """Drop every burst and response; bursts stays."""
        self._open.clear()
        self._answers.clear()
        self._shown, self._pause = False, 0
        self.monitor.reset()
        for name in ("bvalid", "bid", "bresp", "awready", "wready"):
            self._port[name].value = 0
