# SPDX-License-Identifier: Apache-2.0
"""One compute unit driven register by register: hw_emu's simulator without XRT, clock by clock.

For benches and for looking at a kernel; the serving side goes through host/ and the emulated XRT library instead.
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

#: sim/emu/device_model.h: HYPERSONIC_DEVICE_MODEL_ABI
_ABI = 1

#: clocks without a data beat after which a run counts as hung
_PATIENCE_CLOCKS = 100_000


class SimulationError(RuntimeError):
    """The kernel hung, broke a rule of its bus, or the simulator is not one of ours."""


@dataclass(frozen=True)
class MemoryTiming:
    """AXI memory behind both masters. The default is ideal: data in the next clock, never a pause."""

    read_latency_clocks: int = 1
    write_latency_clocks: int = 1
    outstanding: int = 64
    stall_percent: int = 0
    seed: int = 1


_RESOLVE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
_FAULT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class _Memory(ctypes.Structure):
    _fields_ = [("card", ctypes.c_void_p), ("resolve", _RESOLVE), ("fault", _FAULT)]


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
    ]


class Simulation:
    """A compute unit after reset and its memory, one array. A context manager; used by one thread."""

    def __init__(
        self, simulator: Path, memory_bytes: int = 1 << 22, timing: MemoryTiming | None = None,
        view: Callable[[int], NDArray[np.uint8]] | None = None,
    ) -> None:  # fmt: skip
        """simulator: what sim.simulator.build_hardware_simulator returns. view: the bytes from an address on, none where there
        is no memory; without it, addresses are places in `memory`. Raises SimulationError for another file, or when it cannot
        have the memory or the disk it needs."""
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
        if self._api.write(self._model, offset, value):
            raise SimulationError(f"the kernel did not take {value:#x} at register {offset:#x}")

    def read(self, offset: int) -> int:
        value = ctypes.c_uint32()
        if self._api.read(self._model, offset, value):
            raise SimulationError(f"the kernel did not answer a read of register {offset:#x}")
        return value.value

    def advance(self, clocks: int) -> int:
        """Run so many clocks; returns the data beats moved since reset. Raises SimulationError for a broken bus rule."""
        beats = int(self._api.advance(self._model, clocks))
        if self.faults:
            raise SimulationError(self.faults[0])
        return beats

    def start(self, x: int, y: int, rows: int, w: int | None = None) -> None:
        """Write the arguments (addresses in `memory`; w: of a kernel with weights there) and ap_start, as XRT does, once the
        last start has been taken."""
        while self.read(registers.CONTROL) & registers.AP_START:
            self.advance(8)
        pointers = ((registers.X, x), (registers.Y, y), *([] if w is None else [(registers.W, w)]))
        for offset, value in pointers:
            self.write(offset, value & 0xFFFFFFFF)
            self.write(offset + 4, value >> 32)
        self.write(registers.ROWS, rows)
        self.write(registers.CONTROL, registers.AP_START)

    def finish(self) -> int:
        """Wait for the oldest run's done and acknowledge it. Returns its clocks from accepted to done."""
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
