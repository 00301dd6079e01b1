# SPDX-License-Identifier: Apache-2.0
"""Access to a card, real or simulated, as the driver needs it: registers, memory that it can reach, a way to pass the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.f2 import registers as f2
from hypersonic.host.errors import DeviceLostError, XclbinMismatchError

#: what a PCIe read of a device that is gone gives
GONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Memory:
    """Host memory that the card reads and writes. array: (size_bytes,) uint8. address: of its first byte, as the card sees it;
    the bytes behind it follow without a hole."""

    array: NDArray[np.uint8]
    address: int


class Access(Protocol):
    """Access to a card with our custom logic on it. One thread at a time."""

    def read(self, offset: int) -> int:
        """The 32-bit register at `offset` of BAR0. Raises DeviceLostError."""
        ...

    def write(self, offset: int, value: int) -> None:
        """A 32-bit register at `offset` of BAR0. Raises DeviceLostError."""
        ...

    def pause(self) -> None:
        """Let a little time pass between two looks at a register. Raises DeviceLostError. May be called by several threads."""
        ...

    def allocate(self, size_bytes: int) -> Memory:
        """Zeroed memory from an address that is a multiple of 4096 on. Raises BufferObjectError."""
        ...

    def free(self, memory: Memory) -> None:
        """Give it back; its array must not be used any more."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Identity:
    """What the identity block tells. uuid: 32 hexadecimal digits."""

    compute_units: int
    uuid: str


def read_identity(access: Access, what: str) -> Identity:
    """Raises DeviceLostError when the card does not answer, XclbinMismatchError when what is on it is not ours."""
    magic = access.read(f2.IDENTITY + f2.MAGIC)
    if magic == GONE:
        raise DeviceLostError(
            f"{what} reads all ones: it is gone from the bus or its OCL bus timed out; "
            "`fpga-describe-local-image -S SLOT -M` tells, `fpga-load-local-image` mends"
        )
    if magic != f2.MAGIC_VALUE:
        raise XclbinMismatchError(
            f"{what} has other custom logic on it: MAGIC is {magic:#010x}, expected {f2.MAGIC_VALUE:#010x}"
        )
    version = access.read(f2.IDENTITY + f2.VERSION)
    if version >> 16 != f2.MAP_VERSION >> 16:
        raise XclbinMismatchError(
            f"{what} has registers of version {version:#010x}, expected {f2.MAP_VERSION:#010x}: build the image again"
        )
    words = [access.read(f2.IDENTITY + f2.UUID + 4 * word) for word in range(4)]
    return Identity(access.read(f2.IDENTITY + f2.COMPUTE_UNITS), "".join(f"{word:08x}" for word in words))
