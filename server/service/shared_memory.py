# SPDX-License-Identifier: Apache-2.0
"""Calls on shared memory, of either front end: system regions, and what a server without GPUs says of CUDA's."""

from __future__ import annotations

from hypersonic.server.errors import InvalidRequestError, NotFoundError
from hypersonic.server.inference.shm import Region, SharedMemory, allowed


class SharedMemoryCalls:
    """regions: None where clients' shared memory is not allowed; each call on system regions raises UnsupportedError then."""

    def __init__(self, regions: SharedMemory | None) -> None:
        self.regions = regions

    def require_allowed(self) -> None:
        """Raises UnsupportedError where clients' shared memory is not allowed."""
        allowed(self.regions)

    def system_status(self, name: str) -> tuple[Region, ...]:
        """name: "" = all regions. Raises NotFoundError."""
        return allowed(self.regions).status(name)

    def system_register(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Raises ServerError."""
        allowed(self.regions).register(name, key, offset, size_bytes)

    def system_unregister(self, name: str) -> None:
        """name: "" = all regions."""
        allowed(self.regions).unregister(name)

    def cuda_status(self, name: str) -> None:
        """There is no GPU, so there are no regions. Raises NotFoundError for any name."""
        if name:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{name}'")

    def cuda_register(self, name: str) -> None:
        """Raises InvalidRequestError."""
        raise InvalidRequestError(f"failed to register CUDA shared memory region: '{name}', GPUs not supported")
