# SPDX-License-Identifier: Apache-2.0
"""A simulated F2 card in this process, for the driver in host/f2: the RTL behind models of the shell's OCL and PCIM.

Register accesses are transactions on the simulated OCL bus. Memory is arrays of this process at invented physical addresses,
which the simulated PCIM reads and writes. Simulated time passes only while the driver accesses a register or pauses. A broken
rule of the shell raises DeviceLostError, because on a card it would take the bus down.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.f2.registers import UNIT_STRIDE
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.errors import BufferObjectError, DeviceClosedError, DeviceError, DeviceLostError, DeviceNotFoundError
from hypersonic.host.f2.access import Memory
from hypersonic.sim.card.direct import MemoryTiming, Simulation, SimulationError

#: simulated clocks of one pause()
_PAUSE_CLOCKS = 256
_PAGE_BYTES = 4096
#: physical address of the first buffer; a page between any two buffers stays free
_FIRST_ADDRESS = 0x1_0000_0000
#: the most that all buffers of a card may have together
MEMORY_BYTES = 1 << 32

#: the number of simulated cards
CARDS = 4

#: names in $HYPERSONIC_EMU_MEMORY -> fields of MemoryTiming
_TIMING_FIELDS = {
    "latency": ("read_latency_clocks", "write_latency_clocks"), "outstanding": ("outstanding",), "stall": ("stall_percent",),
    "seed": ("seed",),
}  # fmt: skip

#: the default timing: a read of host memory takes about a microsecond, at 250 MHz
TIMING = MemoryTiming(read_latency_clocks=250, write_latency_clocks=60)


class SimulatedCard:
    """A simulated card with the interface of hypersonic.host.f2.access.Access, for any thread.

    hangs maps a compute unit's number to the first run, counted from 1, that never completes. Every method that touches the
    card raises DeviceLostError after a broken rule of the shell, and DeviceClosedError after close().
    """

    def __init__(self, simulator: Path, timing: MemoryTiming = TIMING, hangs: dict[int, int] | None = None) -> None:
        self._lock = RLock()
        self._buffers: dict[int, NDArray[np.uint8]] = {}
        self._begins: list[int] = []
        self._next = _FIRST_ADDRESS
        self._hangs, self._starts = hangs or {}, dict.fromkeys(hangs or {}, 0)
        self._closing = ExitStack()
        self._open: Simulation | None = self._closing.enter_context(Simulation(simulator, 1, timing, self._view))

    def read(self, offset: int) -> int:
        """Read a 32-bit register at a byte offset in BAR0."""
        with self._lock, _Lost():
            value = self._simulation.read(offset)
            self._simulation.advance(0)  # raises if a rule was broken meanwhile
            return value

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register at a byte offset in BAR0; the ap_start of a run that shall hang is dropped."""
        with self._lock, _Lost():
            if not self._is_hung(offset, value):
                self._simulation.write(offset, value)

    def pause(self) -> None:
        """Let 256 clocks pass."""
        with self._lock, _Lost():
            self._simulation.advance(_PAUSE_CLOCKS)

    def allocate(self, size_bytes: int) -> Memory:
        """Allocate zeroed memory that begins on a page. Raises BufferObjectError beyond MEMORY_BYTES in total."""
        with self._lock:
            used = sum(array.nbytes for array in self._buffers.values())
            if used + size_bytes > MEMORY_BYTES:
                raise BufferObjectError(
                    f"a buffer object of {size_bytes} bytes cannot be allocated: {used} of {MEMORY_BYTES} are taken"
                )
            whole = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
            address, self._next = self._next, self._next + whole + _PAGE_BYTES
            self._buffers[address] = np.zeros(whole, dtype=np.uint8)
            self._begins = sorted(self._buffers)
            return Memory(self._buffers[address][:size_bytes], address)

    def free(self, memory: Memory) -> None:
        """Free the memory. Does nothing if it is free already."""
        with self._lock:
            self._buffers.pop(memory.address, None)
            self._begins = sorted(self._buffers)

    def close(self) -> None:
        """End the simulation. Does nothing if it has ended already."""
        with self._lock:
            self._open = None
            self._closing.close()

    @property
    def _simulation(self) -> Simulation:
        if self._open is None:
            raise DeviceClosedError("the simulated F2 card is closed")
        return self._open

    def _view(self, address: int) -> NDArray[np.uint8]:
        """The bytes from a physical address to the end of its buffer; an empty array where there is no buffer."""
        begin = self._begins[place] if (place := bisect_right(self._begins, address) - 1) >= 0 else address
        return self._buffers[begin][address - begin :] if begin in self._buffers else np.empty(0, np.uint8)

    def _is_hung(self, offset: int, value: int) -> bool:
        unit, register = divmod(offset, UNIT_STRIDE)
        if unit not in self._hangs or register != registers.CONTROL or not value & registers.AP_START:
            return False
        self._starts[unit] += 1
        return self._starts[unit] >= self._hangs[unit]


class _Lost:
    """Turns a SimulationError into the DeviceLostError that it would be on a card."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SimulationError):
            raise DeviceLostError(f"the simulated F2 shell has given up on the card: {error}") from error


def open_card(index: int, contents: Xclbin) -> SimulatedCard:
    """Open a card with the simulator in the xclbin's BITSTREAM section. Each call opens a simulation of its own.

    $HYPERSONIC_EMU_HANG and $HYPERSONIC_EMU_MEMORY mean the same as for the emulated XRT library (sim/card/library.py); with
    stalls, reads are also answered out of order. Raises DeviceNotFoundError for an index of CARDS or above, and DeviceError
    for a value of $HYPERSONIC_EMU_MEMORY that cannot be read.
    """
    if index >= CARDS:
        raise DeviceNotFoundError(f"F2 card {index} cannot be opened: {CARDS} are simulated")
    with tempfile.NamedTemporaryFile(prefix="hypersonic-f2-", suffix=".so") as file:
        file.write(contents.bitstream)
        file.flush()
        return SimulatedCard(Path(file.name), _timing(os.environ.get("HYPERSONIC_EMU_MEMORY", "")), _hangs(contents))


def _timing(text: str) -> MemoryTiming:
    if text in ("", "ideal"):
        return MemoryTiming() if text else TIMING
    pairs = [entry.partition("=") for entry in text.split(",")]
    if not all(name in _TIMING_FIELDS and value.isdecimal() and int(value) < 1 << 20 for name, _, value in pairs):
        raise DeviceError(
            f"HYPERSONIC_EMU_MEMORY is {text!r}, expected ideal or latency=CLOCKS,outstanding=1..256,stall=0..90,seed=N"
        )
    values = {field: int(value) for name, _, value in pairs for field in _TIMING_FIELDS[name]}
    return replace(TIMING, **values)


def _hangs(contents: Xclbin) -> dict[int, int]:
    names = [unit.name for unit in contents.compute_units]
    wanted = [entry.rpartition(":") for entry in os.environ.get("HYPERSONIC_EMU_HANG", "").split(",") if entry]
    return {names.index(name): int(run) for name, _, run in wanted if name in names and run.isdecimal()}
