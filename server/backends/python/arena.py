# SPDX-License-Identifier: Apache-2.0
"""Memory that the server shares with a model's process: a file in memory that can grow but never shrink.

A process that shrank it would have the server die of SIGBUS: the kernel's seals forbid that.
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
    """[base, base + size_bytes) of the file is in use. One thread at a time."""

    flat: Bytes
    view: memoryview

    def __init__(self, limit_bytes: int) -> None:
        """limit_bytes: of size_bytes. Raises OSError."""
        self._limit_bytes = limit_bytes
        self.fd = os.memfd_create("model tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.base = 0
        self._map(min(_SMALLEST_BYTES, _pages(limit_bytes)))
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)

    @property
    def size_bytes(self) -> int:
        return len(self.flat)

    def fit(self, size_bytes: int) -> bool:
        """Whether so many bytes fit now; grows to the next power of two, up to the limit. Old views stay good.

        Raises BackendError when the limit allows it and the system does not.
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
        """Somebody keeps what is written: go on behind it."""
        self.base += self.size_bytes
        self._map(self.size_bytes)

    def close(self) -> None:
        """Views stay good; the memory goes with the last of them. Safe to call twice."""
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
