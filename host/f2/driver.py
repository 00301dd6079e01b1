# SPDX-License-Identifier: Apache-2.0
"""The driver of F2 cards (host/driver.py), which uses their registers. It corresponds to host/xrt.py for cards with XRT.

The kernel uses the host's memory: a buffer object is one array that host and card share. There is one bank, and nothing to copy
(no Copies).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.f2.registers import REPORT_BYTES, UNIT_STRIDE
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.driver import Handle
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    DeviceClosedError,
    DeviceError,
    DeviceNotFoundError,
    RunError,
    XclbinMismatchError,
)
from hypersonic.host.f2 import image
from hypersonic.host.f2.access import Access, Identity, Memory, read_identity, start_report
from hypersonic.host.f2.bar import BarAccess, card_addresses
from hypersonic.host.f2.unit import ARGUMENTS, Run, Unit
from hypersonic.host.sysfs import SYSFS

T = TypeVar("T")

#: opens card `index` with the image of that xclbin loaded
OpenAccess = Callable[[int, Xclbin], Access]

#: the arguments that are pointers, all into the only bank
_POINTERS = (0, 1, 3)
_BANK = 0


@dataclass
class _Device:
    index: int
    lock: Lock = field(default_factory=Lock)
    access: Access | None = None
    contents: Xclbin | None = None
    identity: Identity | None = None
    report: Memory | None = None

    def completed(self, unit: int) -> NDArray[np.uint32]:
        """(1,), the runs that the compute unit has completed; the card writes it."""
        if self.report is None:
            raise DeviceError(f"F2 card {self.index} has no image loaded")
        return self.report.array.view(np.uint32)[unit : unit + 1]

    def loaded(self) -> tuple[Access, Xclbin, Identity]:
        if self.access is None or self.contents is None or self.identity is None:
            raise DeviceError(f"F2 card {self.index} has no image loaded")
        return self.access, self.contents, self.identity


@dataclass(frozen=True)
class _Buffer:
    device: _Device
    memory: Memory


class F2Driver:
    """A Driver with Registers, Banks and Addresses. All methods may be called by any thread."""

    reset = "load the card's image again (`fpga-load-local-image -S SLOT -I AGFI`)"

    def __init__(self, open_access: OpenAccess) -> None:
        self._open_access = open_access
        self._numbers = count(1)
        self._devices: dict[Handle, _Device] = {}
        self._units: dict[Handle, Unit] = {}
        self._buffers: dict[Handle, _Buffer] = {}
        self._runs: dict[Handle, tuple[Unit, Run]] = {}

    def open_device(self, index: int) -> Handle:
        """A handle for card `index`; load_xclbin opens the card itself. Raises DeviceNotFoundError for a negative index."""
        if index < 0:
            raise DeviceNotFoundError(f"F2 card {index} cannot be opened: expected 0 or above")
        return self._keep(self._devices, _Device(index))

    def close_device(self, device: Handle) -> None:
        """Close the card. A second call does nothing."""
        closed = self._devices.pop(device, None)
        if closed is not None and closed.access is not None:
            with closed.lock:  # no other thread is in the middle of a sequence of register accesses
                closed.access.close()
                if closed.report is not None:
                    closed.access.free(closed.report)

    def load_xclbin(self, device: Handle, path: str) -> str:
        """Open the card with the xclbin's image loaded, and return the uuid in its identity block, 32 hex digits.

        Raises DeviceNotFoundError, DeviceBusyError, DeviceLostError, XclbinMismatchError, LibraryNotFoundError,
        BufferObjectError.
        """
        opened = _find(self._devices, device)
        contents = Xclbin.read(Path(path))
        opened.access, opened.contents = self._open_access(opened.index, contents), contents
        opened.identity = read_identity(opened.access, f"F2 card {opened.index}")
        if opened.identity.compute_units != len(contents.compute_units):
            raise XclbinMismatchError(
                f"F2 card {opened.index} has {opened.identity.compute_units} compute units, {path} describes "
                f"{len(contents.compute_units)}: build and publish the model again"
            )
        opened.report = opened.access.allocate(REPORT_BYTES)
        start_report(opened.access, opened.report)
        return opened.identity.uuid

    def open_kernel(self, device: Handle, uuid: str, name: str) -> Handle:
        """Open a compute unit.

        Raises XclbinMismatchError, ComputeUnitNotFoundError.

        Args:
            uuid: of the xclbin on the card.
            name: "kernel:{compute_unit}".
        """
        opened = _find(self._devices, device)
        access, contents, identity = opened.loaded()
        if uuid != identity.uuid:
            raise XclbinMismatchError(f"F2 card {opened.index} holds the build {identity.uuid}, expected {uuid}")
        names = [f"{unit.kernel}:{{{unit.name}}}" for unit in contents.compute_units]
        if name not in names:
            raise ComputeUnitNotFoundError(
                f"compute unit {name} is not on F2 card {opened.index}, which has {', '.join(names)}"
            )
        number = names.index(name)
        unit = contents.compute_units[number]
        arguments = _arguments(contents, unit.kernel)
        completed = opened.completed(number)
        return self._keep(self._units, Unit(access, opened.lock, number, unit.name, arguments, completed))

    def close_kernel(self, kernel: Handle) -> None:
        """Close the compute unit. A second call does nothing."""
        self._units.pop(kernel, None)

    def group_id(self, kernel: Handle, argument: int) -> int:
        """The only bank, 0. Raises ComputeUnitNotFoundError for an argument that is not a pointer."""
        if not _is_pointer(_find(self._units, kernel), argument):
            raise ComputeUnitNotFoundError(f"argument {argument} has no memory bank: it is not a pointer")
        return _BANK

    def read_register(self, kernel: Handle, offset: int) -> int:
        """The unit's 32-bit register at that offset. Raises DeviceError for an offset that does not exist."""
        return _find(self._units, kernel).read(_checked(offset))

    def write_register(self, kernel: Handle, offset: int, value: int) -> None:
        """Write the unit's 32-bit register at that offset. Raises DeviceError for an offset that does not exist."""
        _find(self._units, kernel).write(_checked(offset), value & 0xFFFFFFFF)

    def allocate(self, device: Handle, size_bytes: int, group: int) -> Handle:
        """A buffer in host memory.

        Raises BufferObjectError.

        Args:
            group: 0, the only bank.
        """
        opened = _find(self._devices, device)
        if size_bytes < 1 or group != _BANK:
            raise BufferObjectError(
                f"a buffer object of {size_bytes} bytes in memory {group} cannot be allocated: expected 1 or more in memory 0"
            )
        access = opened.loaded()[0]
        with opened.lock:
            return self._keep(self._buffers, _Buffer(opened, access.allocate(size_bytes)))

    def map_buffer(self, buffer: Handle, size_bytes: int) -> NDArray[np.uint8]:
        """The buffer's memory, (size_bytes,) uint8, not a copy."""
        return _find(self._buffers, buffer).memory.array[:size_bytes]

    def buffer_address(self, buffer: Handle) -> int:
        """The physical address of the buffer's first byte."""
        return _find(self._buffers, buffer).memory.address

    def free_buffer(self, buffer: Handle) -> None:
        """Free the buffer. A second call does nothing."""
        freed = self._buffers.pop(buffer, None)
        if freed is not None and freed.device.access is not None:
            with freed.device.lock:
                freed.device.access.free(freed.memory)

    def open_run(self, kernel: Handle) -> Handle:
        """A run of the compute unit, with no arguments set."""
        unit = _find(self._units, kernel)
        return self._keep(self._runs, (unit, Run([None] * unit.arguments)))

    def set_buffer(self, run: Handle, argument: int, buffer: Handle) -> None:
        """Set a pointer argument. Raises BufferObjectError for an argument that is not a pointer."""
        unit, opened = _find(self._runs, run)
        if not _is_pointer(unit, argument):
            raise BufferObjectError(f"argument {argument} does not take the buffer object: it is not a pointer")
        opened.arguments[argument] = _find(self._buffers, buffer).memory.address

    def set_scalar(self, run: Handle, argument: int, value: int) -> None:
        """Set a scalar argument.

        Raises RunError.

        Args:
            value: 32 bits, unsigned.
        """
        if argument in _POINTERS or not 0 <= argument < len(ARGUMENTS) or not 0 <= value < 1 << 32:
            raise RunError(f"argument {argument} does not take {value}: expected argument 2, 0 to 2**32 - 1")
        _find(self._runs, run)[1].arguments[argument] = value

    def start(self, run: Handle) -> None:
        """Start the run, or queue it. Raises RunError, DeviceLostError."""
        unit, opened = _find(self._runs, run)
        unit.start(opened)

    def wait(self, run: Handle, timeout_ms: int) -> int:
        """The run's state once it has ended, or its present state after timeout_ms. Raises DeviceLostError."""
        unit, opened = _find(self._runs, run)
        return unit.wait(opened, timeout_ms)

    def close_run(self, run: Handle) -> None:
        """Close the run. A second call does nothing."""
        self._runs.pop(run, None)

    def _keep(self, table: dict[Handle, T], value: T) -> Handle:
        handle = next(self._numbers)
        table[handle] = value
        return handle


def _find(table: dict[Handle, T], handle: Handle) -> T:
    try:
        return table[handle]
    except KeyError:
        raise DeviceClosedError("a handle of an F2 card was used after it was closed") from None


def _arguments(contents: Xclbin, kernel: str) -> int:
    """The number of the kernel's arguments. Raises XclbinMismatchError for a kernel that is not one of this project's."""
    count = sum(len(each.arguments) for each in contents.kernels if each.name == kernel)
    if not len(ARGUMENTS) - 1 <= count <= len(ARGUMENTS):
        raise XclbinMismatchError(
            f"kernel {kernel} has {count} arguments, expected {len(ARGUMENTS) - 1} or {len(ARGUMENTS)}: build the model again"
        )
    return count


def _is_pointer(unit: Unit, argument: int) -> bool:
    return argument in _POINTERS and argument < unit.arguments


def _checked(offset: int) -> int:
    if offset % 4 or not 0 <= offset < registers.ADDRESS_RANGE:
        raise DeviceError(f"register {offset:#x} does not exist: expected a multiple of 4 below {registers.ADDRESS_RANGE:#x}")
    return offset


def open_bar(index: int, contents: Xclbin, sysfs: Path = SYSFS) -> Access:
    """Open card `index` of this machine. The image that BITSTREAM names is loaded, unless the card has it already and is idle.

    Raises DeviceNotFoundError, DeviceBusyError, DeviceError, LibraryNotFoundError.
    """
    if contents.target is not Target.HW:
        raise DeviceError(f"the container is for target {contents.target}, expected hw for a card")
    addresses = card_addresses(sysfs)
    if index >= len(addresses):
        there = ", ".join(addresses) or "none"
        raise DeviceNotFoundError(f"F2 card {index} cannot be opened: there is no such card ({there})")
    access = BarAccess(addresses[index], sysfs)
    if not _is_ready(access, contents):
        access.close()
        agfi = contents.bitstream[:64].decode("ascii", "replace").strip()
        access = BarAccess(image.load(_slot(addresses[index]), agfi), sysfs)
    try:
        access.enable()
    except DeviceError:
        access.close()
        raise
    return access


def _slot(address: str) -> int:
    slots = image.slots()
    if address not in slots:
        raise DeviceNotFoundError(f"AWS' tools know no card at {address}, they list {', '.join(slots) or 'none'}")
    return slots.index(address)


def _is_ready(access: Access, contents: Xclbin) -> bool:
    """True if the card has this image already and all its compute units are idle."""
    try:
        identity = read_identity(access, "the card")
    except DeviceError:
        return False
    return identity.uuid == contents.uuid and _all_idle(access, range(identity.compute_units))


def _all_idle(access: Access, units: Iterable[int]) -> bool:
    controls = [access.read(unit * UNIT_STRIDE + registers.CONTROL) for unit in units]
    return all(control & registers.AP_IDLE and not control & registers.AP_DONE for control in controls)
