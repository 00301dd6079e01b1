# SPDX-License-Identifier: Apache-2.0
"""The card's memory. XRT's allocator, in the host process, chooses the addresses of buffers; there is no other memory."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.xclbin.sections import Memory as Bank

_PAGE_BYTES = 4096


class RefusedError(ValueError):
    """The card refuses the host's request; the text says why."""


class DeviceMemory:
    """The buffers that the host has allocated, by device address."""

    def __init__(self, banks: Iterable[Bank]) -> None:
        self._banks = tuple(range(bank.base_address, bank.base_address + (bank.size_kib << 10)) for bank in banks if bank.used)
        self._starts: list[int] = []
        self._regions: dict[int, NDArray[np.uint8]] = {}

    def allocate(self, address: int, size_bytes: int) -> None:
        """Allocate whole pages of zeros at a device address.

        Raises RefusedError outside the banks, for an overlap with another buffer, and when this machine is out of memory.
        """
        pages_bytes = max(-(-size_bytes // _PAGE_BYTES), 1) * _PAGE_BYTES
        end = address + pages_bytes
        if not any(address in bank and end <= bank.stop for bank in self._banks):
            raise RefusedError(f"{size_bytes} bytes at {address:#x} are not in a memory bank of the xclbin")
        index = bisect.bisect_left(self._starts, end)
        if index and self._end(self._starts[index - 1]) > address:
            raise RefusedError(f"{size_bytes} bytes at {address:#x} overlap the buffer at {self._starts[index - 1]:#x}")
        try:
            self._regions[address] = np.zeros(pages_bytes, dtype=np.uint8)
        except MemoryError as error:
            raise RefusedError(f"{size_bytes} bytes at {address:#x}: this machine has no memory for them") from error
        bisect.insort(self._starts, address)

    def free(self, address: int) -> NDArray[np.uint8]:
        """Free the buffer at an address and return its bytes, which a kernel may still be accessing.

        Raises RefusedError if there is no buffer at that address.
        """
        if address not in self._regions:
            raise RefusedError(f"there is no buffer at {address:#x}")
        self._starts.remove(address)
        return self._regions.pop(address)

    def view(self, address: int) -> NDArray[np.uint8]:
        """Return the bytes from an address to the end of its buffer, without a copy; empty if nothing is allocated there."""
        index = bisect.bisect_right(self._starts, address)
        if not index:
            return np.empty(0, dtype=np.uint8)
        start = self._starts[index - 1]
        return self._regions[start][address - start :]

    def range(self, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """Return exactly size_bytes bytes at an address, without a copy. Raises RefusedError if no buffer has them all."""
        view = self.view(address)
        if size_bytes > view.size:
            raise RefusedError(f"{size_bytes} bytes at {address:#x}: no buffer of that size is there")
        return view[:size_bytes]

    def _end(self, start: int) -> int:
        return start + self._regions[start].size
