# SPDX-License-Identifier: Apache-2.0
"""A real F2 card: BAR0 mapped from sysfs, buffers in huge pages.

::

    <sysfs>/bus/pci/devices/<address>/
        vendor, device          0x1d0f and the image's device id, or AWS' own id when no image is loaded
        resource0               BAR0, the shell's OCL window
        config                  the command register: memory space on, bus master on while runs may be in flight
        iommu_group/type        "identity" where the card has to use physical addresses

Sources: the aws-fpga kit (BARs, ids; the shell responds with SLVERR while bus master is off), Linux' sysfs-bus-pci. This has
not been used on a card yet.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from hypersonic.firmware.f2.registers import WINDOW_BYTES
from hypersonic.host.errors import (
    BufferObjectError,
    DeviceBusyError,
    DeviceClosedError,
    DeviceError,
    DeviceNotFoundError,
)
from hypersonic.host.f2.access import Memory
from hypersonic.host.f2.pinned import PinnedMemory, lock
from hypersonic.host.sysfs import ADDRESS, SYSFS

#: Amazon
VENDOR = 0x1D0F
#: device ids of the application function: that of this project's images (cl_id_defines.vh), and the shell's without an image
DEVICES = (0xF010, 0x9048)

_COMMAND = 4
_MEMORY_SPACE, _BUS_MASTER = 1 << 1, 1 << 2
_PAUSE_S = 20e-6


def card_addresses(sysfs: Path = SYSFS) -> tuple[str, ...]:
    """The PCI addresses of this machine's F2 cards, in the order of AWS' slots; empty without any. Never raises."""
    devices = sysfs / "bus" / "pci" / "devices"
    with suppress(OSError):
        names = sorted(entry.name for entry in devices.iterdir() if ADDRESS.fullmatch(entry.name))
        return tuple(name for name in names if _is_f2(devices / name))
    return ()


def _is_f2(entry: Path) -> bool:
    try:
        vendor, device = (int((entry / name).read_text()[:16], 0) for name in ("vendor", "device"))
    except (OSError, ValueError):
        return False
    return vendor == VENDOR and device in DEVICES


class BarAccess:
    """The card at a PCI address, for this process alone. It can reach memory only from `enable` until `close`, so that a hung
    run cannot write to pages that were freed."""

    def __init__(self, address: str, sysfs: Path = SYSFS, memory: PinnedMemory | None = None) -> None:
        """Raises DeviceNotFoundError, DeviceBusyError (another process has it, or this user may not), DeviceError."""
        if not ADDRESS.fullmatch(address):
            raise DeviceNotFoundError(f"{address!r} is not a PCI address, expected one like 0000:34:00.0")
        self.address = address
        self._memory = memory or PinnedMemory()
        entry = sysfs / "bus" / "pci" / "devices" / address
        _check_iommu(entry, address)
        with ExitStack() as opened:
            file = _open(entry / "resource0", address)
            opened.callback(os.close, file)
            _take(file, address)
            self._config = entry / "config"
            _command(self._config, address, on=_MEMORY_SPACE, off=_BUS_MASTER)
            self._map = _map(file, address)
            words = (ctypes.c_uint32 * (WINDOW_BYTES // 4)).from_buffer(self._map)
            self._words: ctypes.Array[ctypes.c_uint32] | None = words
            del words
            self._closing = opened.pop_all()

    def enable(self) -> None:
        """Allow the card to reach memory. Raises DeviceBusyError when this user may not set its command register."""
        _command(self._config, self.address, on=_BUS_MASTER)

    def read(self, offset: int) -> int:
        """The 32-bit register at `offset` of BAR0. Raises DeviceClosedError."""
        return int(self._open_words()[offset >> 2])

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset` of BAR0. Raises DeviceClosedError."""
        self._open_words()[offset >> 2] = value

    def pause(self) -> None:
        """Sleep for 20 microseconds."""
        time.sleep(_PAUSE_S)

    def allocate(self, size_bytes: int) -> Memory:
        """Locked memory that is contiguous for the card. Raises BufferObjectError."""
        memory = self._memory.allocate(size_bytes)
        try:
            lock(memory)
        except BufferObjectError:
            self._memory.free(memory)
            raise
        return memory

    def free(self, memory: Memory) -> None:
        """Free the memory; its pages remain while an array uses them."""
        self._memory.free(memory)

    def close(self) -> None:
        """Unmap BAR0 and turn bus mastering off. A second call does nothing."""
        if self._words is not None:
            self._words = None  # the mapping cannot be closed while an object refers to it
            self._map.close()
            with suppress(DeviceError):  # a card that is gone cannot reach memory
                _command(self._config, self.address, off=_BUS_MASTER)
        self._closing.close()

    def _open_words(self) -> ctypes.Array[ctypes.c_uint32]:
        words = self._words
        if words is None:
            raise DeviceClosedError(f"card {self.address} is closed")
        return words


def _check_iommu(entry: Path, address: str) -> None:
    """Raises DeviceError for a card behind an IOMMU that translates, because the card could not use physical addresses then."""
    try:
        kind = (entry / "iommu_group" / "type").read_text()[:32].strip()
    except OSError:
        return  # no IOMMU, as on F2 instances
    if kind != "identity":
        raise DeviceError(
            f"card {address} is behind an IOMMU that translates ({kind}), so it cannot use the buffers' physical addresses: "
            "boot with iommu=pt"
        )


def _open(resource: Path, address: str) -> int:
    try:
        return os.open(resource, os.O_RDWR | os.O_SYNC | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise DeviceNotFoundError(f"there is no card at {address}: `fpga-describe-local-image-slots -H` lists them") from error
    except OSError as error:
        raise DeviceBusyError(f"{resource} cannot be opened ({error.strerror}): run the server as root") from error


def _take(file: int, address: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DeviceBusyError(f"card {address} is used by another process, or by another model of this one") from error


def _command(config: Path, address: str, *, on: int = 0, off: int = 0) -> None:
    """Set and clear bits of the PCI command register, which AWS' tools do not change."""
    try:
        with config.open("r+b", buffering=0) as file:
            file.seek(_COMMAND)
            command = int.from_bytes(file.read(2), "little")
            file.seek(_COMMAND)
            file.write((command & ~off | on).to_bytes(2, "little"))
    except OSError as error:
        raise DeviceBusyError(f"the PCI command register of {address} cannot be set ({error.strerror}): run as root") from error


def _map(file: int, address: str) -> mmap.mmap:
    try:
        return mmap.mmap(file, WINDOW_BYTES)
    except (OSError, ValueError) as error:
        raise DeviceError(f"BAR0 of {address} is not {WINDOW_BYTES >> 20} MiB of memory: {error}") from error
