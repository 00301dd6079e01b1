# SPDX-License-Identifier: Apache-2.0
"""The card's memory: XRT's own allocator, in the host process, says where buffers are; only those exist here."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.xclbin.sections import Memory as Bank

_PAGE_BYTES = 4096


class RefusedError(ValueError):
    """The card does not do what the host asks; the text says why."""


class DeviceMemory:
    """The card's memory: only what the host allocates exists."""

    def __init__(self, banks: Iterable[Bank]) -> None:
        self._banks = tuple(range(bank.base_address, bank.base_address + (bank.size_kib << 10)) for bank in banks if bank.used)
        self._starts: list[int] = []
        self._regions: dict[int, NDArray[np.uint8]] = {}

    def allocate(self, address: int, size_bytes: int) -> None:
        """Whole pages, all zero. Raises RefusedError outside the banks, on another region, or when memory is short."""
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
        """Its bytes, which a kernel may still have in its hands. Raises RefusedError."""
        if address not in self._regions:
            raise RefusedError(f"there is no buffer at {address:#x}")
        self._starts.remove(address)
        return self._regions.pop(address)

    def view(self, address: int) -> NDArray[np.uint8]:
        """From there to the end of its region, no copy; empty where nothing is allocated."""
        index = bisect.bisect_right(self._starts, address)
        if not index:
            return np.empty(0, dtype=np.uint8)
        start = self._starts[index - 1]
        return self._regions[start][address - start :]

    def range(self, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """Exactly so many bytes, no copy. Raises RefusedError."""
        view = self.view(address)
        if size_bytes > view.size:
            raise RefusedError(f"{size_bytes} bytes at {address:#x}: no buffer of that size is there")
        return view[:size_bytes]

    def _end(self, start: int) -> int:
        return start + self._regions[start].size
