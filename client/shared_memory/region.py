# SPDX-License-Identifier: Apache-2.0
"""A region of POSIX shared memory."""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.shared_memory.names import DIRECTORY


class Region:
    """Memory with a name, by which a server on this host opens it. Only this user, and root, can open it."""

    def __init__(self, name: str, size_bytes: int) -> None:
        """Create the region. Raises OSError if /dev/shm has no room or cannot be written."""
        self.name, self.size_bytes = name, size_bytes
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(DIRECTORY / name, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # the mapping keeps it: see names.remove_abandoned()
            os.posix_fallocate(descriptor, 0, size_bytes)  # a full /dev/shm is an error here and not SIGBUS later
            self._memory = mmap.mmap(descriptor, size_bytes)
        except BaseException:
            self.unlink()
            raise
        finally:
            os.close(descriptor)

    @property
    def key(self) -> str:
        """Its name for shm_open(3)."""
        return f"/{self.name}"

    def write(self, offset: int, array: NDArray[Any]) -> None:
        """Copy an array into the region.

        Args:
            array: C-contiguous.
        """
        np.copyto(np.ndarray(array.shape, array.dtype, self._memory, offset), array)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return a copy of the bytes."""
        return self._memory[offset : offset + size_bytes]

    def unlink(self) -> None:
        """Remove the name. The memory is freed when nothing maps it any more."""
        with suppress(OSError):
            (DIRECTORY / self.name).unlink()
