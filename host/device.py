# SPDX-License-Identifier: Apache-2.0
"""A card with an xclbin on it, through a driver (driver.py): Device, ComputeUnit, BufferObject, Run.

    Device          one card, one xclbin; owns its compute units
    `-- ComputeUnit     one kernel instance; owns its buffer objects and runs
        |-- BufferObject    memory of one bank, with its host side as a numpy array
        `-- Run             one set of arguments, started again and again

Everything is made before the first run and closed in the opposite order; close() may be called twice. A Device may be
shared between threads; a ComputeUnit is made and closed by one thread, each buffer object and each run used by one at a time.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import ComputeUnit as Instance
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.sections import MEMORY_KINDS
from hypersonic.host import health
from hypersonic.host.driver import (
    FROM_DEVICE,
    PENDING,
    TO_DEVICE,
    Driver,
    Handle,
    OptionalCalls,
    Registers,
    RunState,
    optional_calls,
    run_state,
)
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    ComputeUnitOutOfServiceError,
    DeviceClosedError,
    DeviceError,
    DeviceLostError,
    MemoryAccessError,
    XclbinMismatchError,
    failure,
)

#: kinds of MEM_TOPOLOGY that are memory of the card, and not of the chip or the host
_BANKS = frozenset(MEMORY_KINDS.index(kind) for kind in ("DDR3", "DDR4", "DRAM", "HBM"))
#: one call into XRT waits this long at most, so that signals are seen
WAIT_SLICE_MS = 20
#: how long close() waits for a run in flight before it leaves its buffers to the card
CLOSE_TIMEOUT_MS = 1000
#: who waits for a run looks so often whether the card is still there
HEARTBEAT_MS = 500


class _Closing:
    """close() once, and as a context manager."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self.closed = False

    def close(self) -> None:
        """Release everything, in the opposite order of its making. Harmless the second time."""
        self.closed = True
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _require_open(self, what: str) -> None:
        if self.closed:
            raise DeviceClosedError(f"{what} is closed")


class Device(_Closing):
    """One card. Made by opening.open_device."""

    uuid: str  # of the xclbin, 32 hex digits
    name: str  # the platform, as the xclbin names it
    target: Target
    kernel_clock_mhz: int  # what ap_clk was built for; 0 when the xclbin does not say
    memory_bytes: int  # of all memory banks, as the xclbin names them
    compute_units: tuple[ComputeUnit, ...]
    reset: str  # what brings back a card on which a run hangs, in words
    lost: bool  # a call found the card gone; so are all its compute units then
    xclbin: Path

    def __init__(self, driver: Driver, contents: Xclbin, path: Path, index: int) -> None:
        super().__init__()
        self.uuid, self.name, self.target = contents.uuid, contents.vbnv, contents.target
        self.kernel_clock_mhz = next((clock.frequency_mhz for clock in contents.clocks if clock.kind == 1), 0)
        self.lost, self.reset, self.xclbin = False, driver.reset, path
        self.memory_bytes = sum(memory.size_kib * 1024 for memory in contents.memories if memory.kind in _BANKS)
        calls = optional_calls(driver)
        with ExitStack() as opened:
            handle = driver.open_device(index)
            opened.callback(driver.close_device, handle)
            loaded = driver.load_xclbin(handle, str(path))
            if loaded != contents.uuid:
                raise XclbinMismatchError(
                    f"card {index} holds xclbin {loaded}, expected {contents.uuid} of {path}: "
                    "the file changed while it was loaded, or another process loaded its own; start again"
                )
            self.compute_units = tuple(
                opened.enter_context(ComputeUnit(driver, calls, handle, loaded, unit, self._lose))
                for unit in contents.compute_units
            )
            for unit in self.compute_units:
                unit.check_fit()
            self._closing = opened.pop_all()

    def compute_unit(self, name: str) -> ComputeUnit:
        """Raises ComputeUnitNotFoundError naming those there are."""
        for unit in self.compute_units:
            if unit.name == name:
                return unit
        there = ", ".join(unit.name for unit in self.compute_units) or "none"
        raise ComputeUnitNotFoundError(f"compute unit is {name!r}, the xclbin has {there}")

    @property
    def can_be_let_go(self) -> bool:
        """Whether this process may give everything back although a run hangs: who opens the card next will see that."""
        return self.lost or all(unit.tells for unit in self.compute_units)

    def let_go(self) -> None:
        """close(), and give back too what a compute unit out of service may still write to: the card can be reset then. Raises
        nothing: most of it fails on a card that is gone."""
        for unit in self.compute_units:
            unit.let_go = True
        with suppress(DeviceError):
            self.close()

    def _lose(self, why: str) -> None:
        self.lost = True
        for unit in self.compute_units:
            unit.take_out_of_service(why)


class ComputeUnit(_Closing):
    """One kernel instance, opened exclusively. Out of service once a run did not come back: until the card is reset it may
    still write into its buffers, so they are neither freed nor used again."""

    def __init__(
        self, driver: Driver, calls: OptionalCalls, device: Handle, uuid: str, unit: Instance, lose: Callable[[str], None]
    ) -> None:
        """calls: what the driver has besides. uuid: of the xclbin on the card. lose: told why, when the card is gone."""
        super().__init__()
        self.name, self._banks, self._reach = unit.name, unit.memories, unit.reach
        self.in_service = True
        self.let_go = False
        #: what its runs may read at any time, by the file's sha256 (weights.py)
        self.weights: dict[str, BufferObject] = {}
        self._driver, self._calls, self._device, self.reset = driver, calls, device, driver.reset
        self._why = f"a run did not complete; {self.reset}"
        self._lose = lose
        self._lock = Lock()
        self._service_lock = Lock()
        self._handle = driver.open_kernel(device, uuid, f"{unit.kernel}:{{{unit.name}}}")
        self._closing.callback(self._release, driver.close_kernel, self._handle)
        #: whether its registers tell how it is
        self.tells = health.tells(self.read_register)

    def group_id(self, argument: int) -> int:
        """The memory bank of a pointer argument. Raises ComputeUnitNotFoundError for what is none."""
        self._require_open(f"compute unit {self.name}")
        if self._calls.banks is not None:
            return self._calls.banks.group_id(self._handle, argument)
        if argument not in self._banks:
            raise ComputeUnitNotFoundError(f"argument {argument} has no memory bank: it is no pointer")
        return self._banks[argument]

    def reaches(self, argument: int, group: int) -> bool:
        """Whether a pointer argument takes a buffer object of that bank: its own, or one of those its group is made of."""
        return group == self.group_id(argument) or group in self._reach.get(argument, ())

    def allocate(self, size_bytes: int, argument: int) -> BufferObject:
        """A buffer object in the bank of that argument. Raises BufferObjectError."""
        return BufferObject(self, size_bytes, self.group_id(argument))

    def allocate_in(self, size_bytes: int, group: int) -> BufferObject:
        """A buffer object in any bank; only one that an argument reaches can be set. Raises BufferObjectError."""
        self._require_open(f"compute unit {self.name}")
        return BufferObject(self, size_bytes, group)

    def open_run(self) -> Run:
        self._require_open(f"compute unit {self.name}")
        return Run(self)

    def read_register(self, offset: int) -> int:
        """A 32-bit register of s_axi_control. Any thread may ask, also while another one closes the unit."""
        with self._lock:
            self._require_open(f"compute unit {self.name}")
            return self._registers().read_register(self._handle, offset)

    def write_register(self, offset: int, value: int) -> None:
        """A 32-bit register of s_axi_control; what runs need XRT writes itself. Any thread may ask."""
        with self._lock:
            self._require_open(f"compute unit {self.name}")
            self._registers().write_register(self._handle, offset, value)

    def _registers(self) -> Registers:
        if self._calls.registers is None:
            raise DeviceError(f"registers of {self.name} cannot be read or written: the card's driver has no calls for it")
        return self._calls.registers

    def close(self) -> None:
        """Close its runs, its buffer objects, then the unit. A run in flight is waited for, CLOSE_TIMEOUT_MS at most."""
        with self._lock:
            super().close()

    def take_out_of_service(self, why: str = "") -> bool:
        """For good: only a reset of the card and a new Device bring it back. why: empty when a run did not complete.
        Whether it was in service till now."""
        with self._service_lock:
            before, self.in_service = self.in_service, False
            self._why = why if before and why else self._why
        return before

    def lose_card(self, error: DeviceLostError) -> None:
        """The card is gone: out of service, and so are the others on it."""
        self._lose(str(error))

    def check_fit(self) -> None:
        """Before the first run. Raises ComputeUnitOutOfServiceError when a run hangs on it, DeviceError."""
        if self.tells:
            health.check_fit(self.name, self.read_register, self.reset)

    def check_present(self) -> None:
        """Raises DeviceLostError when the card is gone."""
        if self.tells:
            health.check_present(self.name, self.read_register, self.reset)

    def check_accesses(self) -> None:
        """After a run: raises MemoryAccessError when the memory answered with errors; the unit is out of service then."""
        if self.tells:
            try:
                health.check_accesses(self.name, self.read_register, self.reset)
            except MemoryAccessError as error:
                self.take_out_of_service(str(error))
                raise

    def require_service(self) -> None:
        """Raises DeviceClosedError or ComputeUnitOutOfServiceError when the unit cannot be used."""
        self._require_open(f"compute unit {self.name}")
        if not self.in_service:
            raise self.out_of_service()

    def out_of_service(self) -> ComputeUnitOutOfServiceError:
        """What to say once it is."""
        return ComputeUnitOutOfServiceError(f"compute unit {self.name} is out of service: {self._why}")

    def _owns(self, closing: Callable[[], None]) -> None:
        self._closing.callback(closing)

    def _release(self, release: Callable[[Handle], None], handle: Handle) -> None:
        """Give a handle back, unless the card may still use what is behind it."""
        if self.in_service or self.let_go:
            release(handle)


class BufferObject(_Closing):
    """Memory on the card and its host side. Made by ComputeUnit.allocate."""

    def __init__(self, unit: ComputeUnit, size_bytes: int, group: int) -> None:
        super().__init__()
        driver = unit._driver
        self.size_bytes, self.group = size_bytes, group
        self._calls = unit._calls
        self._handle = driver.allocate(unit._device, size_bytes, group)
        self._closing.callback(unit._release, driver.free_buffer, self._handle)
        try:
            self._array = driver.map_buffer(self._handle, size_bytes)
        except DeviceError:
            self.close()
            raise
        unit._owns(self.close)

    @property
    def array(self) -> NDArray[np.uint8]:
        """The host side, (size_bytes,) uint8, no copy. Views of it must not be used after close()."""
        self._require_open("the buffer object")
        return self._array

    @property
    def address(self) -> int:
        """On the card. Raises DeviceError where its driver does not tell."""
        self._require_open("the buffer object")
        if self._calls.addresses is None:
            raise DeviceError("the address of a buffer object is not known: the card's driver has no call for it")
        return self._calls.addresses.buffer_address(self._handle)

    def sync_to_device(self, size_bytes: int, offset: int = 0) -> None:
        """Host side -> card. Raises BufferObjectError when the range is outside the buffer object."""
        self._sync(TO_DEVICE, size_bytes, offset)

    def sync_from_device(self, size_bytes: int, offset: int = 0) -> None:
        """Card -> host side. Raises BufferObjectError when the range is outside the buffer object."""
        self._sync(FROM_DEVICE, size_bytes, offset)

    def _sync(self, direction: int, size_bytes: int, offset: int) -> None:
        self._require_open("the buffer object")
        if size_bytes == 0:
            return
        code = self._copy(direction, size_bytes, offset) if size_bytes > 0 <= offset else errno.EINVAL
        if code:
            way = "to" if direction == TO_DEVICE else "from"
            what = f"{size_bytes} bytes at {offset} of a buffer object of {self.size_bytes} do not sync {way} the card"
            raise failure(BufferObjectError, what, code)

    def _copy(self, direction: int, size_bytes: int, offset: int) -> int:
        """0, or an errno."""
        if self._calls.copies is not None:
            return self._calls.copies.sync(self._handle, direction, size_bytes, offset)
        return 0 if offset <= self.size_bytes - size_bytes else errno.EINVAL


class Run(_Closing):
    """One set of arguments of a compute unit. Made by ComputeUnit.open_run."""

    def __init__(self, unit: ComputeUnit) -> None:
        super().__init__()
        self._unit, self._driver = unit, unit._driver
        self._handle = self._driver.open_run(unit._handle)
        self._pending = False
        self._closing.callback(unit._release, self._driver.close_run, self._handle)
        self._closing.callback(self._settle)
        unit._owns(self.close)

    def set_arg(self, index: int, value: BufferObject | int) -> None:
        """A buffer object for a pointer, 0 to 2**32 - 1 for a scalar. Raises BufferObjectError (wrong bank) or RunError."""
        self._require_open("the run")
        if isinstance(value, BufferObject):
            value._require_open("the buffer object")
            self._require_bank(index, value)
            self._driver.set_buffer(self._handle, index, value._handle)
        else:
            self._driver.set_scalar(self._handle, index, value)

    def _require_bank(self, index: int, buffer: BufferObject) -> None:
        """XRT 2.13 takes a buffer object of any bank, and the run reads or writes elsewhere."""
        if not self._unit.reaches(index, buffer.group):
            raise BufferObjectError(
                f"argument {index} of {self._unit.name} does not take the buffer object: it is in memory bank {buffer.group}, "
                f"expected {self._unit.group_id(index)}: allocate it for this argument"
            )

    def start(self) -> None:
        """Hand the run to the compute unit; does not wait. Raises ComputeUnitOutOfServiceError or RunError."""
        self._require_open("the run")
        self._unit.require_service()
        self._driver.start(self._handle)
        self._pending = True

    def wait(self, timeout_ms: int) -> RunState:
        """The run's last state, or TIMEOUT when it did not end within timeout_ms, or not before its compute unit went out of
        service; then it is still in flight. Raises DeviceLostError when the card is gone."""
        self._require_open("the run")
        return self._wait(timeout_ms, self._unit.check_present)

    def _wait(self, timeout_ms: int, look: Callable[[], None] = lambda: None) -> RunState:
        deadline = time.monotonic_ns() + timeout_ms * 1_000_000
        left_ms, look_at_ms = timeout_ms, timeout_ms - HEARTBEAT_MS
        while True:
            state = self._driver.wait(self._handle, max(1, min(left_ms, WAIT_SLICE_MS)))
            if state not in PENDING:
                self._pending = False
                return run_state(state)
            left_ms = (deadline - time.monotonic_ns()) // 1_000_000
            if left_ms <= look_at_ms:
                look()
                look_at_ms = left_ms - HEARTBEAT_MS
            if left_ms <= 0 or not self._unit.in_service:
                return RunState.TIMEOUT

    def _settle(self) -> None:
        """Before the handle goes: a run in flight is given a last chance, else its unit's buffers stay where they are."""
        if self._pending and self._unit.in_service and self._wait(CLOSE_TIMEOUT_MS) is RunState.TIMEOUT:
            self._unit.take_out_of_service()
