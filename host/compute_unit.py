# SPDX-License-Identifier: Apache-2.0
"""A compute unit with its buffer objects and runs, as a Device opens it (device.py).

Everything of a unit is opened before its first run and closed in reverse order; close() may be called twice. A ComputeUnit is
opened and closed by one thread at a time; a buffer object or a run is used by one thread at a time.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.host import health
from hypersonic.host.closing import Closing
from hypersonic.host.driver import (
    FROM_DEVICE,
    PENDING,
    TO_DEVICE,
    Driver,
    Handle,
    OptionalCalls,
    Registers,
    RunState,
    run_state,
)
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    ComputeUnitOutOfServiceError,
    DeviceError,
    DeviceLostError,
    MemoryAccessError,
    failure,
)
from hypersonic.host.sharing.clocks import UnitClocks
from hypersonic.host.sharing.gate import Gate, UnitGate
from hypersonic.host.usage import CardUsage

#: the longest that one call into XRT waits, so that Python can handle signals
WAIT_SLICE_MS = 20
#: how long close() waits for a run in flight before it leaves the buffers allocated
CLOSE_TIMEOUT_MS = 1000
#: interval at which a thread that waits for a run checks that the card is still present
HEARTBEAT_MS = 500


class LinkedUnit(Protocol):
    """A compute unit as an xclbin describes it (firmware/xclbin/container.py)."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def kernel(self) -> str:
        """The name of its kernel."""
        ...

    @property
    def memories(self) -> dict[int, int]:
        """Argument index -> the memory group in which its buffers are allocated."""
        ...

    @property
    def reach(self) -> dict[int, frozenset[int]]:
        """Argument index -> all memories that it reaches."""
        ...


@dataclass(frozen=True)
class OpenCard:
    """An open card as its compute units use it.

    Attributes:
        calls: the driver's optional protocols.
        uuid: of the xclbin on it.
        tags: of the memories, by group.
        lose: called with the reason when the card is gone.
    """

    driver: Driver
    calls: OptionalCalls
    handle: Handle
    uuid: str
    tags: Sequence[str]
    usage: CardUsage
    lose: Callable[[str], None]
    #: the directions of the PCIe link, for which the models of the card compete
    to_card: Gate = field(default_factory=Gate)
    from_card: Gate = field(default_factory=Gate)

    def tag(self, group: int) -> str:
        """The tag of the memory with that index."""
        return self.tags[group] if group < len(self.tags) else f"memory {group}"


class ComputeUnit(Closing):
    """One kernel instance, opened exclusively.

    It is taken out of service when a run does not complete: until the card is reset, that run may still write into the unit's
    buffers, so they are neither freed nor used again.

    Attributes:
        in_service: False once it has been taken out.
        weights: those that are loaded (weights.py).
        tells: True if the unit's registers show its health.
        gate: for the runs of its models.
        clocks: those of each model.
        starting: held while a run is started.
        to_card, from_card: for transfers.
    """

    def __init__(self, card: OpenCard, unit: LinkedUnit) -> None:
        super().__init__()
        self.name, self.kernel, self._banks, self._reach = unit.name, unit.kernel, unit.memories, unit.reach
        self.in_service = True
        self.released = False
        #: the weights that its runs may read at any time, by the sha256 of the file (weights.py)
        self.weights: dict[str, UnitWeights] = {}
        self.gate, self.starting = UnitGate(), Lock()
        self.to_card, self.from_card = card.to_card, card.from_card
        self._card = card
        self._driver, self._calls, self.reset = card.driver, card.calls, card.driver.reset
        self._why = f"a run did not complete; {self.reset}"
        self._lock = Lock()
        self._service_lock = Lock()
        self._handle = card.driver.open_kernel(card.handle, card.uuid, f"{unit.kernel}:{{{unit.name}}}")
        self._closing.callback(self._release, card.driver.close_kernel, self._handle)
        #: True if its registers show its health
        self.tells = health.tells(self.read_register)
        self.clocks = UnitClocks(self.read_register if self.tells else None)

    def group_id(self, argument: int) -> int:
        """The memory bank of a pointer argument. Raises ComputeUnitNotFoundError for an argument that is not a pointer."""
        self._require_open(f"compute unit {self.name}")
        if self._calls.banks is not None:
            return self._calls.banks.group_id(self._handle, argument)
        if argument not in self._banks:
            raise ComputeUnitNotFoundError(f"argument {argument} has no memory bank: it is not a pointer")
        return self._banks[argument]

    def reaches(self, argument: int, group: int) -> bool:
        """True if a pointer argument takes a buffer object in that bank: its own bank, or one of the banks of its group."""
        return group == self.group_id(argument) or group in self._reach.get(argument, ())

    def allocate(self, size_bytes: int, argument: int) -> BufferObject:
        """A new buffer object in the bank of that argument. Raises BufferObjectError."""
        return BufferObject(self, size_bytes, self.group_id(argument))

    def allocate_in(self, size_bytes: int, group: int) -> BufferObject:
        """A new buffer object in any bank. Only arguments that reach this bank can be set to it. Raises BufferObjectError."""
        self._require_open(f"compute unit {self.name}")
        return BufferObject(self, size_bytes, group)

    def open_run(self) -> Run:
        """A new run without arguments. Raises DeviceClosedError, RunError."""
        self._require_open(f"compute unit {self.name}")
        return Run(self)

    def read_register(self, offset: int) -> int:
        """The 32-bit register at `offset` bytes of s_axi_control. Raises DeviceError. Any thread, even while another thread
        closes the unit."""
        with self._lock:
            self._require_open(f"compute unit {self.name}")
            return self._registers().read_register(self._handle, offset)

    def write_register(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset` bytes of s_axi_control. XRT itself writes the registers that runs need. Raises
        DeviceError. Any thread."""
        with self._lock:
            self._require_open(f"compute unit {self.name}")
            self._registers().write_register(self._handle, offset, value)

    def _registers(self) -> Registers:
        if self._calls.registers is None:
            raise DeviceError(f"registers of {self.name} cannot be read or written: the card's driver has no calls for it")
        return self._calls.registers

    def close(self) -> None:
        """Close its runs, its buffer objects, then the unit. Waits for a run in flight, at most CLOSE_TIMEOUT_MS."""
        with self._lock:
            super().close()

    def take_out_of_service(self, why: str = "") -> bool:
        """Take the unit out of service permanently: only a reset of the card and a new Device restore it.

        Returns whether it was in service.

        Args:
            why: empty when a run did not complete.
        """
        with self._service_lock:
            before, self.in_service = self.in_service, False
            self._why = why if before and why else self._why
        self.gate.close()
        return before

    def lose_card(self, error: DeviceLostError) -> None:
        """Take all compute units of the card out of service, because the card is gone."""
        self._card.lose(str(error))

    def check_fit(self) -> None:
        """Check the unit before its first run. Raises ComputeUnitOutOfServiceError when an earlier run is still hung or the
        memory has responded with errors, DeviceError."""
        if self.tells:
            health.check_fit(self.name, self.read_register, self.reset)

    def check_present(self) -> None:
        """Raises DeviceLostError when the card is gone, as far as the unit's registers show it."""
        if self.tells:
            health.check_present(self.name, self.read_register, self.reset)

    def check_accesses(self) -> None:
        """Check the memory's responses after a run. Raises MemoryAccessError when one was an error, and takes the unit out of
        service."""
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
        """The error that reports that the unit is out of service, with the reason."""
        return ComputeUnitOutOfServiceError(f"compute unit {self.name} is out of service: {self._why}")

    def _owns(self, closing: Callable[[], None]) -> None:
        self._closing.callback(closing)

    def _release(self, release: Callable[[Handle], None], handle: Handle) -> None:
        """Release a handle, unless the card may still use its object."""
        if self.in_service or self.released:
            release(handle)


@dataclass(eq=False)
class UnitWeights:
    """Weights in a compute unit's memory bank.

    Attributes:
        users: the models that were given them.
    """

    buffer: BufferObject
    users: int = 1


class BufferObject(Closing):
    """Memory on the card and its host side. Made by ComputeUnit.allocate."""

    def __init__(self, unit: ComputeUnit, size_bytes: int, group: int) -> None:
        super().__init__()
        card, driver = unit._card, unit._driver
        self.size_bytes, self.group = size_bytes, group
        self._calls, self._usage = unit._calls, card.usage
        self._handle = driver.allocate(card.handle, size_bytes, group)
        self._usage.hold(card.tag(group), size_bytes)
        self._closing.callback(unit._release, partial(self._free, driver, card.tag(group)), self._handle)
        try:
            self._array = driver.map_buffer(self._handle, size_bytes)
        except DeviceError:
            self.close()
            raise
        unit._owns(self.close)

    def _free(self, driver: Driver, bank: str, handle: Handle) -> None:
        self._usage.hold(bank, -self.size_bytes)
        driver.free_buffer(handle)

    @property
    def array(self) -> NDArray[np.uint8]:
        """The host side, (size_bytes,) uint8, not a copy. It and its views must not be used after close()."""
        self._require_open("the buffer object")
        return self._array

    @property
    def address(self) -> int:
        """The address on the card. Raises DeviceError when the driver does not support addresses."""
        self._require_open("the buffer object")
        if self._calls.addresses is None:
            raise DeviceError("the address of a buffer object is not known: the card's driver has no call for it")
        return self._calls.addresses.buffer_address(self._handle)

    def sync_to_device(self, size_bytes: int, offset: int = 0) -> None:
        """Copy bytes from the host side to the card. Raises BufferObjectError for a range outside the buffer object."""
        self._sync(TO_DEVICE, size_bytes, offset)

    def sync_from_device(self, size_bytes: int, offset: int = 0) -> None:
        """Copy bytes from the card to the host side. Raises BufferObjectError for a range outside the buffer object."""
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
        self._usage.add_copy(size_bytes, to_card=direction == TO_DEVICE)

    def _copy(self, direction: int, size_bytes: int, offset: int) -> int:
        """Copy through the driver, where it has copies. Returns 0 or an errno."""
        if self._calls.copies is not None:
            return self._calls.copies.sync(self._handle, direction, size_bytes, offset)
        return 0 if offset <= self.size_bytes - size_bytes else errno.EINVAL


class Run(Closing):
    """One set of arguments of a compute unit, made by ComputeUnit.open_run."""

    def __init__(self, unit: ComputeUnit) -> None:
        super().__init__()
        self._unit, self._driver = unit, unit._driver
        self._handle = self._driver.open_run(unit._handle)
        self._pending = False
        self._closing.callback(unit._release, self._driver.close_run, self._handle)
        self._closing.callback(self._settle)
        unit._owns(self.close)

    def set_arg(self, index: int, value: BufferObject | int) -> None:
        """Set argument `index`: a buffer object for a pointer, 0 to 2**32 - 1 for a scalar. Raises BufferObjectError (wrong
        bank) or RunError."""
        self._require_open("the run")
        if isinstance(value, BufferObject):
            value._require_open("the buffer object")
            self._require_bank(index, value)
            self._driver.set_buffer(self._handle, index, value._handle)
        else:
            self._driver.set_scalar(self._handle, index, value)

    def _require_bank(self, index: int, buffer: BufferObject) -> None:
        """Raise BufferObjectError for a buffer object in a bank that the argument does not reach. XRT 2.13 accepts one, and the
        run then reads or writes other memory."""
        if not self._unit.reaches(index, buffer.group):
            raise BufferObjectError(
                f"argument {index} of {self._unit.name} does not take the buffer object: it is in memory bank {buffer.group}, "
                f"expected {self._unit.group_id(index)}: allocate it for this argument"
            )

    def start(self) -> None:
        """Start the run, without waiting for it. Raises ComputeUnitOutOfServiceError or RunError."""
        self._require_open("the run")
        self._unit.require_service()
        self._driver.start(self._handle)
        self._pending = True

    def wait(self, timeout_ms: int) -> RunState:
        """Wait for the run, and return its final state. TIMEOUT means that it is still in flight: it did not end within
        timeout_ms, or before its compute unit was taken out of service. Raises DeviceLostError when the card is gone."""
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
        """Wait for a run in flight before its handle is closed. If it does not end, its unit is taken out of service, so that
        the buffers remain allocated."""
        if self._pending and self._unit.in_service and self._wait(CLOSE_TIMEOUT_MS) is RunState.TIMEOUT:
            self._unit.take_out_of_service()
