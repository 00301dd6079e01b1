# SPDX-License-Identifier: Apache-2.0
"""The driver's interface to a card, real or simulated: registers, memory that the card can reach, and a pause between polls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.f2 import registers as f2
from hypersonic.host.errors import DeviceLostError, XclbinMismatchError

#: the value of a PCIe read from a device that is gone
GONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Memory:
    """Host memory that the card reads and writes.

    Attributes:
        array: (size_bytes,) uint8.
        address: of its first byte, as the card sees it; the memory is contiguous for the card.
    """

    array: NDArray[np.uint8]
    address: int


class Access(Protocol):
    """Access to a card with this project's custom logic. One thread at a time."""

    def read(self, offset: int) -> int:
        """The 32-bit register at `offset` of BAR0. Raises DeviceLostError."""
        ...

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset` of BAR0. Raises DeviceLostError."""
        ...

    def pause(self) -> None:
        """Wait for a short time before a register is polled again. Raises DeviceLostError. Any thread."""
        ...

    def allocate(self, size_bytes: int) -> Memory:
        """Zeroed memory at an address that is a multiple of 4096. Raises BufferObjectError."""
        ...

    def free(self, memory: Memory) -> None:
        """Free the memory, whose array must not be used any more."""
        ...

    def close(self) -> None:
        """End the access. The card can no longer reach memory. A second call does nothing."""
        ...


@dataclass(frozen=True)
class Identity:
    """The contents of the identity block (firmware/f2/registers.py).

    Attributes:
        uuid: 32 hexadecimal digits.
    """

    compute_units: int
    uuid: str


def start_report(access: Access, memory: Memory) -> None:
    """Let the card count completed runs in `memory`, from 0 (firmware/f2/registers.py: REPORT). Raises DeviceLostError."""
    register = f2.IDENTITY + f2.REPORT
    access.write(register, 0)
    access.write(register + 4, memory.address >> 32)
    access.write(register, memory.address & 0xFFFFFFFF | f2.REPORT_ENABLE)


def read_identity(access: Access, what: str) -> Identity:
    """Read the identity block.

    Args:
        what: the card, for messages.

    Raises:
        DeviceLostError: When the card does not respond.
        XclbinMismatchError: When it has other custom logic.
    """
    magic = access.read(f2.IDENTITY + f2.MAGIC)
    if magic == GONE:
        raise DeviceLostError(
            f"{what} reads all ones: it is gone from the bus or its OCL bus timed out; "
            "see `fpga-describe-local-image -S SLOT -M`, and load the image again with `fpga-load-local-image`"
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
