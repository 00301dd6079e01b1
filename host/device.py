# SPDX-License-Identifier: Apache-2.0
"""A card with an xclbin loaded, used through a driver (driver.py): Device, ComputeUnit, BufferObject, Run.

::

    Device          one card with one xclbin; opens its compute units when they are needed
    `-- ComputeUnit     one kernel instance; owns its buffer objects and runs (compute_unit.py)
        |-- BufferObject    memory in one bank, with its host side as a numpy array
        `-- Run             one set of arguments, with which the unit can be started repeatedly

Threads may share a Device. Its users share its compute units too: a unit is opened for the first and closed with the last of
them, while other units of the card run.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock

from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.sections import MEMORY_KINDS, Kind
from hypersonic.host.closing import Closing
from hypersonic.host.compute_unit import ComputeUnit, OpenCard
from hypersonic.host.driver import Driver, optional_calls
from hypersonic.host.errors import ComputeUnitNotFoundError, DeviceError, DeviceLostError, XclbinMismatchError
from hypersonic.host.usage import CardUsage

#: the kinds in MEM_TOPOLOGY that are memory of the card, rather than of the FPGA or the host
_BANKS = frozenset(MEMORY_KINDS.index(kind) for kind in ("DDR3", "DDR4", "DRAM", "HBM"))


def without_image(contents: Xclbin) -> Xclbin:
    """The xclbin without its bitstream, so that its description can be kept in little memory."""
    return replace(contents, sections=tuple(part for part in contents.sections if part.kind != Kind.BITSTREAM))


class Device(Closing):
    """One card with an xclbin loaded, opened by opening.open_device."""

    uuid: str  # of the xclbin, 32 hex digits
    name: str  # the platform's name in the xclbin
    target: Target
    memory_bytes: int  # the size of all memory banks in the xclbin
    reset: str  # how to make a card with a hung run usable again, as an instruction
    lost: bool  # True once a call has found the card gone; all its compute units are then out of service
    xclbin: Path
    contents: Xclbin  # without its bitstream
    usage: CardUsage

    def __init__(self, driver: Driver, contents: Xclbin, path: Path, index: int, usage: CardUsage | None = None) -> None:
        """Create a Device.

        Args:
            usage: the card's counters, None for new ones.
        """
        super().__init__()
        self.uuid, self.name, self.target = contents.uuid, contents.vbnv, contents.target
        self.lost, self.reset, self.xclbin = False, driver.reset, path
        self.contents = without_image(contents)
        self.memory_bytes = sum(memory.size_kib * 1024 for memory in contents.memories if memory.kind in _BANKS)
        self.usage = usage or CardUsage()
        self._lock = RLock()
        #: unit -> the number of its users; units that are open, in the order in which they were opened
        self._users: dict[ComputeUnit, int] = {}
        tags = [memory.tag for memory in contents.group_memories]
        with ExitStack() as opened:
            handle = driver.open_device(index)
            opened.callback(driver.close_device, handle)
            loaded = driver.load_xclbin(handle, str(path))
            if loaded != contents.uuid:
                raise XclbinMismatchError(
                    f"card {index} holds xclbin {loaded}, expected {contents.uuid} of {path}: "
                    "the file changed while it was loaded, or another process loaded its own; start again"
                )
            self._card = OpenCard(driver, optional_calls(driver), handle, loaded, tags, self.usage, self._lose)
            opened.callback(self._close_units)
            self._closing = opened.pop_all()

    @property
    def compute_units(self) -> tuple[ComputeUnit, ...]:
        """The compute units that are open."""
        return tuple(self._users)

    def open_units(self) -> tuple[ComputeUnit, ...]:
        """Open all compute units of the xclbin that are not open yet, and return them. Raises as compute_unit() does."""
        return tuple(self.compute_unit(unit.name) for unit in self.contents.compute_units)

    def compute_unit(self, name: str) -> ComputeUnit:
        """The compute unit with that name, opened and checked unless it is open already; give_back() ends this use.

        Raises ComputeUnitNotFoundError, which lists the existing ones, ComputeUnitOutOfServiceError (an earlier run is still
        hung), DeviceLostError, DeviceClosedError.
        """
        with self._lock:
            self._require_open("the card")
            if self.lost:
                raise DeviceLostError(f"compute unit {name} cannot be opened, because the card is lost; {self.reset}")
            unit = next((unit for unit in self._users if unit.name == name), None) or self._open(name)
            if not unit.in_service:
                raise unit.out_of_service()
            self._users[unit] += 1
            return unit

    def _open(self, name: str) -> ComputeUnit:
        found = next((unit for unit in self.contents.compute_units if unit.name == name), None)
        if found is None:
            there = ", ".join(unit.name for unit in self.contents.compute_units) or "none"
            raise ComputeUnitNotFoundError(f"compute unit is {name!r}, the xclbin has {there}")
        unit = ComputeUnit(self._card, found)
        try:
            unit.check_fit()
        except BaseException:
            unit.close()
            raise
        self._users[unit] = 0
        return unit

    def give_back(self, unit: ComputeUnit) -> None:
        """End one use of a unit, and close it with the last one. A unit out of service remains open until the card is closed or
        released, because its run may still write to its buffers."""
        with self._lock:
            if unit not in self._users:
                return
            self._users[unit] -= 1
            if self._users[unit] <= 0 and unit.in_service:
                del self._users[unit]
                unit.close()

    @property
    def releasable(self) -> bool:
        """True if this process may release the card although a run is hung: the next process to open it can detect that run,
        or the card is gone."""
        return self.lost or all(unit.tells for unit in self.compute_units)

    def release(self) -> None:
        """Close the device, and also free the buffers that a compute unit out of service may still write to, so that the card
        can be reset. Never raises: most of these calls fail on a card that is gone."""
        for unit in self.compute_units:
            unit.released = True
        with suppress(DeviceError):
            self.close()

    def close(self) -> None:
        """Close the compute units, then the card. A second call does nothing."""
        with self._lock:
            super().close()

    def _close_units(self) -> None:
        with ExitStack() as units:
            for unit in self._users:
                units.callback(unit.close)
        self._users.clear()

    def _lose(self, why: str) -> None:
        self.lost = True
        for unit in self.compute_units:
            unit.take_out_of_service(why)
