# SPDX-License-Identifier: Apache-2.0
"""A card as a Device of PYNQ, on top of host/device.py: Overlay loads its xclbin, allocate allocates its memory.

There is one Device for every card that XRT drives, and at least one, because an xclbin for an emulation target needs no card.
The xclbin's target determines which XRT library is used, the installed one or the emulated card's.
"""

from __future__ import annotations

import atexit
import gc
import struct
from pathlib import Path
from typing import Any, ClassVar

import pynq

from hypersonic.firmware.target import Target
from hypersonic.host.compute_unit import BufferObject, ComputeUnit
from hypersonic.host.device import Device
from hypersonic.host.devices import find_devices
from hypersonic.host.errors import BufferObjectError, DeviceClosedError, DeviceError
from hypersonic.host.opening import open_device
from hypersonic.host.pynq.buffer import Block, Buffer, size_bytes
from hypersonic.host.pynq.kernel import Handle, bind
from hypersonic.host.pynq.metadata import Metadata


class Bank:
    """A memory bank, as `overlay.bank0`. Banks of one card and index are equal."""

    def __init__(self, device: Card, description: dict[str, Any]) -> None:
        self.device = device
        self.desc = description
        self.idx: int = description["idx"]
        self.size: int = description["size"]
        self.base_address: int = description["base_address"]

    def allocate(self, shape: Any, dtype: Any = "u4") -> Buffer:
        """A new array in this bank, not initialised. Raises BufferObjectError (the bank is full), DeviceError."""
        return self.device.allocate_in(self, shape, dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bank) and (self.device, self.idx) == (other.device, other.idx)

    def __hash__(self) -> int:
        return hash((id(self.device), self.idx))

    def __repr__(self) -> str:
        return f"Bank({self.desc['tag']}, {self.size >> 20} MiB)"


class Card(pynq.Device):  # type: ignore[misc] # pynq has no types
    """A card by its index. PYNQ makes them; `pynq.Device.devices` lists them."""

    #: after PYNQ's own boards, which PYNQ prefers
    _probe_priority_ = 150
    capabilities: ClassVar = {"REGISTER_RW": True, "CALLABLE": True}

    @classmethod
    def _probe_(cls) -> list[Card]:
        cards = sum(1 for card in find_devices() if card.index is not None and Target.HW in card.targets)
        return [cls(index) for index in range(max(1, cards))]

    def __init__(self, index: int) -> None:
        super().__init__(f"card{index}")
        self.index = index
        self.in_flight: set[Handle] = set()
        self._opened: Device | None = None
        self._metadata: Metadata | None = None
        self._memory: dict[BufferObject, ComputeUnit] = {}
        atexit.register(self._leave)

    @property
    def name(self) -> str:
        """The platform of the xclbin on it."""
        return self._opened.name if self._opened else f"card {self.index}"

    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Metadata:
        """Raises XclbinError, OSError."""
        if partial:
            raise NotImplementedError("a card has no partial regions: load a whole xclbin")
        metadata = Metadata(Path(bitfile_name))
        for description in metadata.ip_dict.values():
            bind(description["type"])
        return metadata

    def download(self, bitstream: Any, parser: Metadata | None = None) -> None:
        """Load the xclbin, unless the card has it already; its buffers then remain. Raises DeviceError, XclbinError."""
        metadata = parser or self.get_bitfile_metadata(bitstream.bitfile_name)
        if not self._holds(metadata):
            self.close()
            opened = open_device(metadata.path, self.index)
            try:
                opened.open_units()
            except DeviceError:
                opened.close()
                raise
            self._opened = opened
        self._metadata = metadata
        self.post_download(bitstream, metadata)

    def _holds(self, metadata: Metadata) -> bool:
        opened = self._opened
        return bool(opened and opened.uuid == metadata.contents.uuid and all(unit.in_service for unit in opened.compute_units))

    def close(self) -> None:
        """Release the card for other processes; the next download opens it again. Raises BufferObjectError while it has buffers
        or runs in use, because their arrays would refer to freed memory."""
        if self._opened is None:
            return
        for handle in tuple(self.in_flight):
            handle.poll()
        if self._alive():
            gc.collect()  # a notebook's tracebacks hold arrays in reference cycles
        if alive := self._alive():
            raise BufferObjectError(
                f"card {self.index} has {alive} buffers that are still referred to, {len(self.in_flight)} runs are in flight: "
                "wait() for the runs and `del` the arrays and their views, then load another xclbin"
            )
        self._leave()

    def _leave(self) -> None:
        """Close the card. Also called at the program's end, because XRT's objects must be closed before XRT is unloaded."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None
        self._memory.clear()
        self.in_flight.clear()

    def _alive(self) -> int:
        """The number of buffers whose memory close() would free while arrays use it. Those of a unit out of service are not
        freed."""
        return sum(not memory.closed and unit.in_service for memory, unit in self._memory.items())

    @property
    def opened(self) -> Device:
        """The open card (host/device.py). Raises DeviceClosedError before the first download."""
        if self._opened is None:
            raise DeviceClosedError(f"card {self.index} has no xclbin: pynq.Overlay('model.xclbin') loads one")
        return self._opened

    @property
    def loaded(self) -> Metadata:
        """The metadata of the xclbin on the card. Raises DeviceClosedError before the first download."""
        _ = self.opened
        assert self._metadata is not None
        return self._metadata

    @property
    def default_memory(self) -> Bank:
        """The only bank that the kernels use. Raises BufferObjectError when they use several, and a target must be given."""
        used = [memory for memory in self.loaded.mem_dict.values() if memory["used"] and not memory["streaming"]]
        if len(used) != 1:
            there = ", ".join(memory["tag"] for memory in used) or "none"
            raise BufferObjectError(
                f"the kernels use the banks {there}: say which, as in allocate(shape, target=overlay.bank0)"
            )
        return self.get_memory(used[0])

    def get_memory(self, description: dict[str, Any]) -> Bank:
        """The bank of an entry of mem_dict."""
        return Bank(self, description)

    def get_memory_by_name(self, name: str) -> Bank:
        """The bank with that tag. Raises KeyError."""
        return Bank(self, self.loaded.mem_dict[name])

    def allocate_in(self, bank: Bank, shape: Any, dtype: Any) -> Buffer:
        """A new array in a bank, as Bank.allocate returns it."""
        size = size_bytes(shape, dtype)
        unit = self._unit_for(bank)
        memory = unit.allocate_in(size, bank.idx)
        self._memory = {other: owner for other, owner in self._memory.items() if not other.closed} | {memory: unit}
        return Buffer(shape, dtype, Block(memory, bank.desc["tag"]), bank)

    def _unit_for(self, bank: Bank) -> ComputeUnit:
        """A unit in service to own a buffer in the bank: one that reaches the bank, if there is any."""
        opened = self.opened
        units = self.loaded.contents.compute_units
        reach = {unit.name for unit in units if any(bank.idx in there for there in unit.reach.values())}
        serving = [unit for unit in opened.compute_units if unit.in_service]
        chosen = next((unit for unit in serving if unit.name in reach), serving[0] if serving else None)
        if chosen is None:
            raise DeviceError(f"card {self.index} has no compute unit in service: {opened.reset}, then load again")
        return chosen

    def open_context(self, description: dict[str, Any]) -> int:
        """The index of a compute unit, which PYNQ requests before it makes a kernel's driver. The units are open since the
        download. Raises DeviceClosedError when the card has another xclbin."""
        if self.opened.uuid != description["xclbin_uuid"]:
            raise DeviceClosedError(f"{description['fullpath']} is of another xclbin than card {self.index} holds: download it")
        return int(description["cu_index"])

    def read_registers(self, address: int, length: int) -> bytes:
        """Read `length` bytes, a multiple of 4, from a compute unit's registers. Raises DeviceError."""
        unit, offset = self._register(address)
        return b"".join(struct.pack("<I", unit.read_register(offset + at)) for at in range(0, length, 4))

    def write_registers(self, address: int, data: bytes) -> None:
        """Write bytes, a multiple of 4, to a compute unit's registers. Raises DeviceError."""
        unit, offset = self._register(address)
        for at, (word,) in enumerate(struct.iter_unpack("<I", bytes(data))):
            unit.write_register(offset + 4 * at, word)

    def _register(self, address: int) -> tuple[ComputeUnit, int]:
        for name, entry in self.loaded.ip_dict.items():
            if 0 <= address - entry["phys_addr"] < entry["addr_range"]:
                return self.opened.compute_unit(name), address - entry["phys_addr"]
        raise DeviceError(f"address {address:#x} is in no compute unit of the xclbin on card {self.index}")
