# SPDX-License-Identifier: Apache-2.0
"""AXI4 for cocotb benches: passive protocol monitors and memories with random latency, pauses and errors.

The monitors check the rules that a card's interconnect expects of a kernel: INCR bursts of full beats that never cross
4 KiB (AXI4, A3.4.1), valid and its payload held until ready (A3.2.1), and WLAST on the last beat. They also check two rules
of this project: write data are never offered before their address is, and strobes start at byte 0, have no holes and are
partial only on a burst's last beat.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.support.rtl.bus import Channel, Item, ProtocolError

_ADDRESS = ("addr", "len", "size", "burst")


@dataclass
class Burst:
    """A burst whose address has been offered or accepted.

    address is in bytes. ready_clock is the clock from which a memory may answer. done counts the beats transferred. id is the
    ID of its address.
    """

    address: int
    beats: int
    ready_clock: int
    done: int = 0
    id: int = 0


def _check_address(name: str, item: Item, beat_bytes: int, max_beats: int) -> Burst:
    address, beats = item[f"{name}addr"], item[f"{name}len"] + 1
    if item[f"{name}burst"] != 1 or 1 << item[f"{name}size"] != beat_bytes or address % beat_bytes:
        raise ProtocolError(f"{name}: {item}, expected an aligned INCR burst of {beat_bytes}-byte beats")
    if beats > max_beats:
        raise ProtocolError(f"{name}: {beats} beats at {address:#x}, expected at most {max_beats}")
    if address % 4096 + beats * beat_bytes > 4096:
        raise ProtocolError(f"{name}: {beats} beats at {address:#x} cross a 4 KiB border")
    return Burst(address, beats, 0)


class ReadMonitor:
    """Passive monitor of AR and R, an agent of bus.Bench. Raises ProtocolError for a broken rule.

    bursts has every burst requested, in order. outstanding is the largest number of bursts in flight at once, beats the
    number of data beats transferred, and held_back the number of clocks in which RVALID was high and RREADY low.
    """

    def __init__(self, dut: Any, prefix: str, beat_bytes: int = 64, max_beats: int = 64) -> None:
        names = tuple(f"{prefix}_ar{name}" for name in _ADDRESS)
        self._short = dict(zip(names, (f"ar{name}" for name in _ADDRESS), strict=True))
        self._ar = Channel(dut, f"{prefix} AR", f"{prefix}_arvalid", f"{prefix}_arready", names)
        self._r = Channel(dut, f"{prefix} R", f"{prefix}_rvalid", f"{prefix}_rready", (f"{prefix}_rlast",))
        self._r_valid, self._r_ready = getattr(dut, f"{prefix}_rvalid"), getattr(dut, f"{prefix}_rready")
        self._beat_bytes, self._max_beats = beat_bytes, max_beats
        self._open = 0
        self.bursts: list[Burst] = []
        self.outstanding = 0
        self.beats = 0
        self.held_back = 0

    def drive(self) -> None:
        """Drive nothing: a monitor is passive."""

    def sample(self) -> None:
        """Check and count what the next rising edge transfers. Raises ProtocolError."""
        if (address := self._ar.sample()) is not None:
            item = {self._short[name]: value for name, value in address.items()}
            self.bursts.append(_check_address("ar", item, self._beat_bytes, self._max_beats))
            self._open += 1
            self.outstanding = max(self.outstanding, self._open)
        self.held_back += self._r_valid.value == 1 and self._r_ready.value == 0
        if (data := self._r.sample()) is not None:
            self.beats += 1
            self._open -= next(iter(data.values()))

    def reset(self) -> None:
        """Forget bursts in flight; bursts and the counters stay."""
        self._open = 0
        self._ar.reset()
        self._r.reset()


class WriteMonitor:
    """Passive monitor of AW, W and B, an agent of bus.Bench. Raises ProtocolError for a broken rule.

    early: data may be offered before their address, as AXI4 allows (A3.3.1) and registers on AW and W alone do.
    bursts has every burst offered, in order, and data the (address in bytes, data, strobes) of every beat. finished counts
    the bursts whose last beat has been transferred.
    """

    def __init__(self, dut: Any, prefix: str, beat_bytes: int = 64, max_beats: int = 64, *, early: bool = False) -> None:
        names = tuple(f"{prefix}_aw{name}" for name in _ADDRESS)
        self._fields = {f"aw{name}": getattr(dut, f"{prefix}_aw{name}") for name in _ADDRESS}
        self._prefix = prefix
        self._aw = Channel(dut, f"{prefix} AW", f"{prefix}_awvalid", f"{prefix}_awready", names)
        self._aw_valid = getattr(dut, f"{prefix}_awvalid")
        self._offered = False  # the address on AW was offered in an earlier clock
        ports = tuple(f"{prefix}_w{name}" for name in ("data", "strb", "last"))
        self._w = Channel(dut, f"{prefix} W", f"{prefix}_wvalid", f"{prefix}_wready", ports)
        self._b = Channel(dut, f"{prefix} B", f"{prefix}_bvalid", f"{prefix}_bready", ())
        self._w_valid = getattr(dut, f"{prefix}_wvalid")
        self._beat_bytes, self._max_beats = beat_bytes, max_beats
        self._open: deque[Burst] = deque()
        self._early = early
        self._taken: deque[Item] = deque()  # data whose address was not offered yet
        self.bursts: list[Burst] = []
        self.data: list[tuple[int, int, int]] = []
        self.finished = 0

    def drive(self) -> None:
        """Drive nothing: a monitor is passive."""

    def sample(self) -> None:
        """Check and record what the next rising edge transfers. Raises ProtocolError."""
        if self._aw_valid.value == 1 and not self._offered:
            item = {name: int(handle.value) for name, handle in self._fields.items()}
            burst = _check_address("aw", item, self._beat_bytes, self._max_beats)
            self.bursts.append(burst)
            self._open.append(burst)
        self._offered = self._aw.sample() is None and self._aw_valid.value == 1
        if self._w_valid.value == 1 and not self._open and not self._early:
            raise ProtocolError(f"{self._prefix} W: data are offered before their address")
        if (beat := self._w.sample()) is not None:
            self._taken.append(beat)
        while self._open and self._taken:
            self._take(*self._taken.popleft().values())
        self._b.sample()

    def _take(self, data: int, strobes: int, last: int) -> None:
        burst = self._open[0]
        if not strobes or strobes & (strobes + 1):
            raise ProtocolError(f"{self._prefix} W: strobes {strobes:#x} have a hole or do not start at byte 0")
        if not last and strobes != (1 << self._beat_bytes) - 1:
            raise ProtocolError(f"{self._prefix} W: strobes {strobes:#x} before the burst's last beat")
        self.data.append((burst.address + burst.done * self._beat_bytes, data, strobes))
        burst.done += 1
        if last != (burst.done == burst.beats):
            raise ProtocolError(f"{self._prefix} W: WLAST is {last} on beat {burst.done} of {burst.beats}")
        if last:
            self._open.popleft()
            self.finished += 1

    def reset(self) -> None:
        """Forget bursts in flight; bursts, data and finished stay."""
        self._open.clear()
        self._offered = False
        for channel in (self._aw, self._w, self._b):
            channel.reset()


@dataclass
class MemoryBehaviour:
    """The timing and the errors of a memory. pause is a probability per clock and channel; latency is in clocks.

    The last two are what AXI4 (A3.3.1) permits a subordinate to wait for. With neither, data may be taken before their address.
    """

    pause: float = 0.0
    latency: int = 2
    #: byte addresses of the beats (reads) or bursts (writes) that are answered with SLVERR
    errors: set[int] = field(default_factory=set)
    #: AWREADY only after a clock in which AWVALID and the WVALID of that burst were high, or its data have been taken
    address_waits_for_data: bool = False
    #: WREADY only for a burst whose address has been taken
    data_waits_for_address: bool = False


#: what a memory may wait for in writes: nothing, data before an address, an address before data, both
WAITS = tuple((address, data) for address in (False, True) for data in (False, True))


class ReadMemory:
    """An AXI4 read slave: answers AR with R from `memory`, in order. The beat width is that of the RDATA port."""

    def __init__(self, dut: Any, prefix: str, memory: bytearray, rng: random.Random, behaviour: MemoryBehaviour) -> None:
        names = ("araddr", "arlen", "arvalid", "arready", "rdata", "rid", "rresp", "rlast", "rvalid", "rready")
        self._port = SimpleNamespace(**{name: getattr(dut, f"{prefix}_{name}") for name in names})
        self._beat_bytes = len(getattr(dut, f"{prefix}_rdata")) // 8
        self._rng = rng
        self._queue: deque[Burst] = deque()
        self._clock = 0
        self._shown = False
        self.memory = memory
        self.behaviour = behaviour

    def drive(self) -> None:
        """Drive ARREADY and, once the oldest burst's latency is over, the next beat of R."""
        port, rng, pause = self._port, self._rng, self.behaviour.pause
        self._clock += 1
        port.arready.value = int(rng.random() >= pause)
        if self._shown:
            return
        self._shown = bool(self._queue) and self._queue[0].ready_clock <= self._clock and rng.random() >= pause
        port.rvalid.value = int(self._shown)
        if self._shown:
            burst = self._queue[0]
            address = burst.address + burst.done * self._beat_bytes
            port.rdata.value = int.from_bytes(self.memory[address : address + self._beat_bytes], "little")
            port.rresp.value = 2 if address in self.behaviour.errors else 0
            port.rlast.value = int(burst.done == burst.beats - 1)

    def sample(self) -> None:
        """Accept a burst's address, and retire the beat of R that is taken."""
        port = self._port
        if port.arvalid.value == 1 and port.arready.value == 1:
            ready = self._clock + self.behaviour.latency
            self._queue.append(Burst(int(port.araddr.value), int(port.arlen.value) + 1, ready))
        if self._shown and port.rready.value == 1:
            self._shown = False
            self._queue[0].done += 1
            if self._queue[0].done == self._queue[0].beats:
                self._queue.popleft()

    def reset(self) -> None:
        """Drop every burst; `memory` keeps its contents."""
        self._queue.clear()
        self._shown = False
        self._port.rvalid.value = 0
        self._port.rid.value = 0
        self._port.arready.value = 0


class WriteMemory:
    """An AXI4 write slave: stores W's strobed bytes into `memory` and answers with B, in order.

    taken has every burst whose address has been accepted, in order.
    """

    def __init__(self, dut: Any, prefix: str, memory: bytearray, rng: random.Random, behaviour: MemoryBehaviour) -> None:
        names = ("awaddr", "awlen", "awid", "awvalid", "awready", "wdata", "wstrb", "wvalid", "wready")
        answer = ("bid", "bresp", "bvalid", "bready")
        self._port = SimpleNamespace(**{name: getattr(dut, f"{prefix}_{name}") for name in (*names, *answer)})
        self._beat_bytes = len(getattr(dut, f"{prefix}_wdata")) // 8
        self._rng = rng
        self._open: deque[Burst] = deque()
        self._early: deque[tuple[int, int]] = deque()  # data and strobes of beats taken before their address
        self._answers: deque[Burst] = deque()
        self._clock = 0
        self._shown = False
        self._both = False  # an address and its data have been offered
        self.memory = memory
        self.behaviour = behaviour
        self.taken: list[Burst] = []

    def drive(self) -> None:
        """Drive AWREADY, WREADY and, once a finished burst's latency is over, its B."""
        port, rng, behaviour = self._port, self._rng, self.behaviour
        self._clock += 1
        address = self._both or not behaviour.address_waits_for_data
        data = bool(self._open) or not behaviour.data_waits_for_address
        port.awready.value = int(rng.random() >= behaviour.pause and address)
        port.wready.value = int(rng.random() >= behaviour.pause and data)
        if self._shown:
            return
        ready = bool(self._answers) and self._answers[0].ready_clock <= self._clock
        self._shown = ready and rng.random() >= behaviour.pause
        port.bvalid.value = int(self._shown)
        if self._shown:
            port.bid.value = self._answers[0].id
            port.bresp.value = 2 if self._answers[0].address in behaviour.errors else 0

    def sample(self) -> None:
        """Accept an address, store a beat, and retire the response that is taken."""
        port = self._port
        address, data = port.awvalid.value == 1, port.wvalid.value == 1
        self._both = address and not self._open and (data or bool(self._early))
        if data and port.wready.value == 1:
            self._early.append((int(port.wdata.value), int(port.wstrb.value)))
        if address and port.awready.value == 1:
            self._both = False
            burst = Burst(int(port.awaddr.value), int(port.awlen.value) + 1, 0, id=int(port.awid.value))
            self.taken.append(burst)
            self._open.append(burst)
        self._store()
        if self._shown and port.bready.value == 1:
            self._shown = False
            self._answers.popleft()

    def _store(self) -> None:
        """Store the beats whose address has been taken, and answer the bursts that end."""
        while self._open and self._early:
            burst, (data, strobes) = self._open[0], self._early.popleft()
            address = burst.address + burst.done * self._beat_bytes
            for byte in range(strobes.bit_length()):
                if strobes >> byte & 1:
                    self.memory[address + byte] = data >> (8 * byte) & 0xFF
            burst.done += 1
            if burst.done == burst.beats:
                burst.ready_clock = self._clock + self.behaviour.latency
                self._answers.append(self._open.popleft())

    def reset(self) -> None:
        """Drop every burst and response; `memory` and `taken` keep their contents."""
        for queue in (self._open, self._early, self._answers):
            queue.clear()
        self._shown = self._both = False
        for port in ("bvalid", "bid", "bresp", "awready", "wready"):
            getattr(self._port, port).value = 0
