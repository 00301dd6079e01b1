# SPDX-License-Identifier: Apache-2.0
"""Memory that the server shares with a model's process: a memory file that can grow but never shrink.

If the process could shrink it, the server would be killed by SIGBUS; the kernel's seals prevent that.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any

import numpy as np

from hypersonic.server.errors import BackendError

_PAGE_BYTES = mmap.ALLOCATIONGRANULARITY
_SMALLEST_BYTES = 16 * _PAGE_BYTES

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Arena:
    """The bytes [base, base + size_bytes) of the file. Used by one thread at a time.

    Attributes:
        flat, view: the mapped bytes, as a uint8 array of shape (size_bytes,) and as a memoryview.
    """

    flat: Bytes
    view: memoryview

    def __init__(self, limit_bytes: int) -> None:
        """Create the file.

        Raises OSError.

        Args:
            limit_bytes: the largest size_bytes.
        """
        self._limit_bytes = limit_bytes
        self.fd = os.memfd_create("model tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.base = 0
        self._map(min(_SMALLEST_BYTES, _pages(limit_bytes)))
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)

    @property
    def size_bytes(self) -> int:
        """The number of mapped bytes."""
        return len(self.flat)

    def fit(self, size_bytes: int) -> bool:
        """Make room for `size_bytes`, up to the next power of two; return False above the limit. Old views stay valid.

        Raises BackendError (INTERNAL) if the system cannot provide memory within the limit.
        """
        if size_bytes <= self.size_bytes:
            return True
        if size_bytes > self._limit_bytes:
            return False
        try:
            self._map(max(_pages(size_bytes), min(1 << (size_bytes - 1).bit_length(), _pages(self._limit_bytes))))
        except OSError as error:
            raise BackendError(f"no shared memory for the {size_bytes} bytes of a run's tensors: {error.strerror}") from error
        return True

    def leave(self) -> None:
        """Leave the current bytes to the process, which still uses them, and continue after them."""
        self.base += self.size_bytes
        self._map(self.size_bytes)

    def close(self) -> None:
        """Close the file. Views stay valid, and the memory is freed with the last of them. Safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        # a mapping has a descriptor of its own
        self.flat = np.empty(0, np.uint8)
        self.view = self.flat.data

    def _map(self, size_bytes: int) -> None:
        if os.fstat(self.fd).st_size < self.base + size_bytes:
            os.ftruncate(self.fd, self.base + size_bytes)
        self.flat = np.frombuffer(mmap.mmap(self.fd, size_bytes, offset=self.base), np.uint8)
        self.view = self.flat.data


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
