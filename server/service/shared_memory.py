# SPDX-License-Identifier: Apache-2.0
"""The calls on shared memory, for both front ends: system regions, and the answers of a server without GPUs on CUDA regions."""

from __future__ import annotations

from hypersonic.server.errors import InvalidRequestError, NotFoundError
from hypersonic.server.inference.shm import Region, SharedMemory, allowed


class SharedMemoryCalls:
    """The calls. If clients may not use shared memory, each call on system regions raises UnsupportedError."""

    def __init__(self, regions: SharedMemory | None) -> None:
        """regions: None = clients may not use shared memory."""
        self.regions = regions

    def require_allowed(self) -> None:
        """Raise UnsupportedError (UNIMPLEMENTED, 501) if clients may not use shared memory."""
        allowed(self.regions)

    def system_status(self, name: str) -> tuple[Region, ...]:
        """Return the region of a name, or all for "". Raises NotFoundError (NOT_FOUND, 404) for an unknown name."""
        return allowed(self.regions).status(name)

    def system_register(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Register `size_bytes` from `offset` of the POSIX shared memory object `key`.

        Raises InvalidRequestError, AlreadyExistsError for a name that is taken, SharedMemoryError for a region that cannot be
        opened, and BudgetError.
        """
        allowed(self.regions).register(name, key, offset, size_bytes)

    def system_unregister(self, name: str) -> None:
        """Unregister the region of a name, or all for ""."""
        allowed(self.regions).unregister(name)

    def cuda_status(self, name: str) -> None:
        """Return nothing, because there are no CUDA regions. Raises NotFoundError (NOT_FOUND, 404) for any name but ""."""
        if name:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{name}'")

    def cuda_register(self, name: str) -> None:
        """Raise InvalidRequestError (INVALID_ARGUMENT, 400), with Triton's text, because there is no GPU."""
        raise InvalidRequestError(f"failed to register CUDA shared memory region: '{name}', GPUs not supported")
