# SPDX-License-Identifier: Apache-2.0
"""Memory of this process that a card can reach: locked huge pages, with their physical addresses from /proc/self/pagemap.

A buffer must be physically contiguous. A buffer of up to 2 MiB is one page; a larger one needs adjacent pages, which pages
reserved at boot usually are; otherwise a page of 1 GiB is used. Source: Documentation/admin-guide/mm/{pagemap,hugetlbpage}.rst.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.host.errors import BufferObjectError
from hypersonic.host.f2.access import Memory

PAGEMAP = Path("/proc/self/pagemap")
_SMALL_PAGE = 4096
#: log2 of a huge page's size -> its name
PAGE_SHIFTS = {21: "2 MiB", 30: "1 GiB"}
_MAP_HUGETLB, _MAP_HUGE_SHIFT = 0x40000, 26
_PRESENT, _FRAME = 1 << 63, (1 << 55) - 1
_RESERVE = {
    21: "`sysctl vm.nr_hugepages=N` reserves pages of 2 MiB, one for each card and buffer (two for each slot, one for weights)",
    30: "`hugepagesz=1G hugepages=N` on the kernel's command line reserves pages of 1 GiB",
}

Map = Callable[[int, int], mmap.mmap]


def map_huge(size_bytes: int, shift: int) -> mmap.mmap:
    """Anonymous huge pages of 2**shift bytes, present from the start. Raises OSError when not enough are free."""
    # shared, because a private page is copied when this process is forked and then writes to it
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE | _MAP_HUGETLB | (shift << _MAP_HUGE_SHIFT)
    return mmap.mmap(-1, size_bytes, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


class PinnedMemory:
    """The buffers of one card.

    Args:
        pagemap, mapping: replaced by tests.
    """

    def __init__(self, pagemap: Path = PAGEMAP, mapping: Map = map_huge) -> None:
        self._pagemap, self._map = pagemap, mapping
        self._maps: dict[int, mmap.mmap] = {}

    def allocate(self, size_bytes: int) -> Memory:
        """Contiguous memory for a buffer. Raises BufferObjectError, which says what to reserve or which right is missing."""
        try:
            return self._contiguous(size_bytes, 21)
        except BufferObjectError as error:
            if size_bytes <= 1 << 21:
                raise
            try:
                return self._contiguous(size_bytes, 30)
            except BufferObjectError as second:
                raise BufferObjectError(f"{error}; {second}; or ask for a smaller slot_rows") from second

    def free(self, memory: Memory) -> None:
        """Free a buffer. Its pages are unmapped when the last array that uses them is deleted."""
        self._maps.pop(memory.address, None)

    def _contiguous(self, size_bytes: int, shift: int) -> Memory:
        page = 1 << shift
        whole = max(page, -(-size_bytes // page) * page)
        try:
            mapped = self._map(whole, shift)
        except OSError as error:
            raise BufferObjectError(
                f"{whole} bytes of huge pages of {PAGE_SHIFTS[shift]} are not to be had ({error.strerror}): {_RESERVE[shift]}"
            ) from error
        array = np.frombuffer(mapped, dtype=np.uint8)
        addresses = [self._physical(array, place) for place in range(0, whole, page)]
        if addresses != list(range(addresses[0], addresses[0] + whole, page)):
            raise BufferObjectError(f"{size_bytes} bytes in pages of {PAGE_SHIFTS[shift]} are not contiguous: {_RESERVE[30]}")
        self._maps[addresses[0]] = mapped
        return Memory(array[:size_bytes], addresses[0])

    def _physical(self, array: NDArray[np.uint8], place: int) -> int:
        """The physical address of array[place], which is the first byte of a page."""
        array[place] = 0  # makes the page present, and this process' own
        virtual = int(array.ctypes.data) + place
        try:
            with self._pagemap.open("rb", buffering=0) as file:
                file.seek(virtual // _SMALL_PAGE * 8)
                entry = int.from_bytes(file.read(8), "little")
        except OSError as error:
            raise BufferObjectError(f"{self._pagemap} cannot be read ({error.strerror}): run the server as root") from error
        if not entry & _PRESENT:
            raise BufferObjectError(f"{self._pagemap} shows the page of a buffer as absent: the system has no memory left")
        if not entry & _FRAME:
            raise BufferObjectError(
                f"{self._pagemap} hides physical addresses: the process lacks CAP_SYS_ADMIN; run the server as root, or in a "
                "container with --cap-add SYS_ADMIN"
            )
        return (entry & _FRAME) * _SMALL_PAGE


def lock(memory: Memory) -> None:
    """Lock the pages in memory. Raises BufferObjectError when the limit of locked memory is below the buffer's size."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlock(ctypes.c_void_p(memory.array.ctypes.data), ctypes.c_size_t(memory.array.nbytes)):
        why = os.strerror(ctypes.get_errno())
        raise BufferObjectError(f"{memory.array.nbytes} bytes cannot be locked ({why}): raise `ulimit -l`, or run as root")
