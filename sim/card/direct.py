# SPDX-License-Identifier: Apache-2.0
"""Drive the simulator of one compute unit register by register and clock by clock, without XRT.

This is for benches and for examining a kernel. The serving side uses host/ and the emulated XRT library instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel import registers

#: HYPERSONIC_DEVICE_MODEL_ABI of sim/emu/device_model.h
_ABI = 2

#: clocks without a data beat after which a run counts as hung
_PATIENCE_CLOCKS = 100_000


class SimulationError(RuntimeError):
    """The kernel hung or broke a bus rule, or the file is not a simulator of this version."""


@dataclass(frozen=True)
class MemoryTiming:
    """The timing of the AXI memory behind both masters; the default is ideal: data in the next clock, without a stall.

    outstanding is the number of bursts accepted and not yet answered, per channel, 1 to 256. stall_percent is the chance,
    per clock and channel, that the memory stalls, 0 to 90; seed is the seed of these stalls.
    """

    read_latency_clocks: int = 1
    write_latency_clocks: int = 1
    outstanding: int = 64
    stall_percent: int = 0
    seed: int = 1


_RESOLVE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
_FAULT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class _Memory(ctypes.Structure):
    #: bank and beat stay NULL: no other unit uses this memory
    _fields_ = [
        ("card", ctypes.c_void_p), ("resolve", _RESOLVE), ("fault", _FAULT),
        ("bank", ctypes.c_void_p), ("beat", ctypes.c_void_p),
    ]  # fmt: skip


class _Timing(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in MemoryTiming.__dataclass_fields__]


class _Api(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint32),
        ("target", ctypes.c_char_p),
        ("kernel", ctypes.c_char_p),
        ("poll_clocks", ctypes.c_uint32),
        ("patience_clocks", ctypes.c_uint32),
        ("create", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Memory), ctypes.POINTER(_Timing))),
        ("destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("write", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)),
        ("read", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))),
        ("advance", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32)),
        ("clocks", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
    ]


class Simulation:
    """A compute unit after reset and its memory. A context manager, to be used by one thread.

    memory is one array of bytes, unless `view` replaces it. faults has the texts of the bus rules broken so far.
    """

    def __init__(
        self, simulator: Path, memory_bytes: int = 1 << 22, timing: MemoryTiming | None = None,
        view: Callable[[int], NDArray[np.uint8]] | None = None,
    ) -> None:  # fmt: skip
        """Create a Simulation.

        Args:
            simulator: a file that build_hardware_simulator returned. view, if given, maps a device address to the bytes from
                there to the end of its buffer, and to an empty array where there is no memory; without it, addresses are
                indices into `memory`.

        Raises:
            SimulationError: For another file, and when the simulator cannot allocate its memory or write its files.
        """
        self.memory: NDArray[np.uint8] = np.zeros(memory_bytes, dtype=np.uint8)
        self.faults: list[str] = []
        self._view = view or (lambda address: self.memory[address:])
        self._library = ctypes.CDLL(str(simulator))
        try:
            function = self._library.hypersonic_device_model
        except AttributeError as error:
            raise SimulationError(f"{simulator} is a shared library, but not the simulator of a kernel") from error
        function.restype = ctypes.POINTER(_Api)
        self._api = function().contents
        if self._api.abi != _ABI:
            raise SimulationError(f"{simulator}: device model ABI is {self._api.abi}, expected {_ABI}; build the model again")
        self._callbacks = (_RESOLVE(self._resolve), _FAULT(lambda _, text: self.faults.append(text.decode())))
        values = timing or MemoryTiming()
        self._timing = _Timing(*(getattr(values, name) for name in MemoryTiming.__dataclass_fields__))
        self._model = self._api.create(_Memory(None, *self._callbacks), self._timing)
        if self._model is None:
            raise SimulationError(f"{simulator}: {', '.join(self.faults) or 'there is not enough memory'}")

    def _resolve(self, _card: int, address: int, extent_bytes: ctypes._Pointer[ctypes.c_uint64]) -> int | None:
        view = self._view(address)
        if not view.size:
            return None
        extent_bytes[0] = view.size
        return int(view.ctypes.data)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._api.destroy(self._model)

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register at a byte offset. Raises SimulationError if the kernel answers an error or never."""
        if self._api.write(self._model, offset, value):
            raise SimulationError(f"the kernel did not take {value:#x} at register {offset:#x}")

    def read(self, offset: int) -> int:
        """Read a 32-bit register at a byte offset. Raises SimulationError if the kernel answers an error or never."""
        value = ctypes.c_uint32()
        if self._api.read(self._model, offset, value):
            raise SimulationError(f"the kernel did not answer a read of register {offset:#x}")
        return value.value

    def advance(self, clocks: int) -> int:
        """Run `clocks` clocks. Returns the number of data beats moved since reset.

        Raises SimulationError for a broken bus rule.
        """
        beats = int(self._api.advance(self._model, clocks))
        if self.faults:
            raise SimulationError(self.faults[0])
        return beats

    def start(self, x: int, y: int, rows: int, w: int | None = None) -> None:
        """Wait until the last start has been accepted, then write the arguments and ap_start as XRT does.

        x, y and w are byte addresses; only a kernel with weights in memory has w.
        """
        while self.read(registers.CONTROL) & registers.AP_START:
            self.advance(8)
        pointers = ((registers.X, x), (registers.Y, y), *([] if w is None else [(registers.W, w)]))
        for offset, value in pointers:
            self.write(offset, value & 0xFFFFFFFF)
            self.write(offset + 4, value >> 32)
        self.write(registers.ROWS, rows)
        self.write(registers.CONTROL, registers.AP_START)

    def finish(self) -> int:
        """Wait until the oldest run is done and acknowledge it. Returns its clocks, from accepted to done.

        Raises SimulationError for a broken bus rule, and when the kernel moves no data for too long.
        """
        beats, still = -1, 0
        while not self.read(registers.CONTROL) & registers.AP_DONE:
            now = self.advance(16)
            still = still + 16 if now == beats else 0
            beats = now
            if still > max(_PATIENCE_CLOCKS, self._api.patience_clocks):
                raise SimulationError(f"the kernel has moved no data for {still} clocks, {beats} beats after reset")
        clocks = self.read(registers.RUN_CYCLES)
        self.write(registers.CONTROL, registers.AP_CONTINUE)
        return clocks
