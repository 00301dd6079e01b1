# SPDX-License-Identifier: Apache-2.0
"""The protocols of an accelerator driver, with the types that they use: handles, and states of a run.

::

    Driver        required of every driver: Devices (open and load), Buffers (memory), Runs
    Registers     } optional. A driver that does not support one omits its methods; device.py checks this once, when it opens
    Banks         } a card (optional_calls)
    Addresses     }
    Copies        }

To add an accelerator: write a class with the methods of Driver and of the optional protocols that it supports (host/xrt.py uses
a C library, host/f2/driver.py registers), give its platforms a Flow (firmware/platform.py), and choose it in opening.py.

Handles are numbers that only their driver interprets. All methods may be called by any thread, and raise the errors of
host/errors.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hypersonic.host.errors import RunError, failure

Handle = int


class RunState(IntEnum):
    """The state of a run, numbered as in ert_cmd_state (XRT, ert.h)."""

    NEW = 1
    QUEUED = 2
    RUNNING = 3
    COMPLETED = 4
    ERROR = 5
    ABORT = 6
    SUBMITTED = 7
    TIMEOUT = 8
    NORESPONSE = 9
    SKERROR = 10
    SKCRASHED = 11


#: states that a run leaves without further calls
PENDING = frozenset({RunState.NEW, RunState.QUEUED, RunState.RUNNING, RunState.SUBMITTED})


def run_state(state: int) -> RunState:
    """The RunState with that number. Raises RunError for a number that is not an ert_cmd_state."""
    try:
        return RunState(state)
    except ValueError as error:
        raise failure(RunError, f"a run cannot be waited for: its state is {state}", min(state, 0)) from error


#: the directions of a copy, numbered as in xclBOSyncDirection
TO_DEVICE, FROM_DEVICE = 0, 1


class Devices(Protocol):
    """Cards and their compute units."""

    @property
    def reset(self) -> str:
        """How to make a card usable again after a run has hung, as an instruction for the operator."""
        ...

    def open_device(self, index: int) -> Handle:
        """Open card `index`, counted from 0. Raises DeviceNotFoundError, DeviceBusyError."""
        ...

    def close_device(self, device: Handle) -> None:
        """Close the card. Its compute units, buffers and runs must have been closed before."""
        ...

    def load_xclbin(self, device: Handle, path: str) -> str:
        """Load the xclbin in the file `path`; returns the uuid of the xclbin that is then on the card, 32 hex digits.

        Raises DeviceError; XclbinMismatchError when the xclbin is for another shell, DeviceBusyError when another is in use.
        """
        ...

    def open_kernel(self, device: Handle, uuid: str, name: str) -> Handle:
        """Open a compute unit for this process alone.

        Raises ComputeUnitNotFoundError.

        Args:
            uuid: of the xclbin on the card.
            name: "kernel:{compute_unit}".
        """
        ...

    def close_kernel(self, kernel: Handle) -> None:
        """Close the compute unit; other processes may open it then."""
        ...


class Buffers(Protocol):
    """Memory that host and card share, or of which each has a copy."""

    def allocate(self, device: Handle, size_bytes: int, group: int) -> Handle:
        """Allocate a buffer object.

        Raises BufferObjectError.

        Args:
            group: the memory bank, an index into Xclbin.group_memories.
        """
        ...

    def map_buffer(self, buffer: Handle, size_bytes: int) -> NDArray[np.uint8]:
        """The host side, (size_bytes,) uint8, not a copy; it must not be used after free_buffer. Raises BufferObjectError."""
        ...

    def free_buffer(self, buffer: Handle) -> None:
        """Free the buffer object. The card must not access it any more."""
        ...


class Runs(Protocol):
    """Runs of a compute unit: a set of arguments with which the unit can be started repeatedly."""

    def open_run(self, kernel: Handle) -> Handle:
        """Make a run of the compute unit, with no arguments set. Raises RunError."""
        ...

    def set_buffer(self, run: Handle, argument: int, buffer: Handle) -> None:
        """Set a pointer argument, by its index. Raises BufferObjectError when the argument does not take this buffer."""
        ...

    def set_scalar(self, run: Handle, argument: int, value: int) -> None:
        """Set a scalar argument, by its index.

        Raises RunError.

        Args:
            value: 32 bits, unsigned.
        """
        ...

    def start(self, run: Handle) -> None:
        """Start the run without waiting for it. Raises RunError, DeviceLostError."""
        ...

    def wait(self, run: Handle, timeout_ms: int) -> int:
        """The run's state (RunState) once it has ended, or its present state after timeout_ms."""
        ...

    def close_run(self, run: Handle) -> None:
        """Close the run, which must not be in flight."""
        ...


class Driver(Devices, Buffers, Runs, Protocol):
    """The methods that every driver must have."""


@runtime_checkable
class Registers(Protocol):
    """Access to a compute unit's 32-bit registers.

    Without it, a hung unit cannot be detected, busy clocks are reported as 0, and a card with a hung run is not released.
    """

    def read_register(self, kernel: Handle, offset: int) -> int:
        """The register at `offset` bytes of s_axi_control. Raises DeviceError."""
        ...

    def write_register(self, kernel: Handle, offset: int, value: int) -> None:
        """Write the register at `offset` bytes of s_axi_control. Raises DeviceError."""
        ...


@runtime_checkable
class Banks(Protocol):
    """The memory bank of a pointer argument. Without it, the bank that the xclbin names is used."""

    def group_id(self, kernel: Handle, argument: int) -> int:
        """The memory bank of the argument, an index into Xclbin.group_memories. Raises ComputeUnitNotFoundError."""
        ...


@runtime_checkable
class Addresses(Protocol):
    """The address of a buffer on the card. Without it, addresses are not known, and no weights can be loaded from memory."""

    def buffer_address(self, buffer: Handle) -> int:
        """The address of the buffer's first byte, as the kernel sees it."""
        ...


@runtime_checkable
class Copies(Protocol):
    """Buffers with one copy on the host and one on the card. Without it, host and card share one copy."""

    def sync(self, buffer: Handle, direction: int, size_bytes: int, offset: int) -> int:
        """Copy part of the buffer.

        Returns 0 or an errno, from which the caller makes the error.

        Args:
            direction: TO_DEVICE or FROM_DEVICE.
        """
        ...


@dataclass(frozen=True)
class OptionalCalls:
    """The optional protocols of a driver: each is the driver itself, or None where it does not support the protocol."""

    registers: Registers | None = None
    banks: Banks | None = None
    addresses: Addresses | None = None
    copies: Copies | None = None


def optional_calls(driver: Driver) -> OptionalCalls:
    """The optional protocols that the driver supports."""
    return OptionalCalls(
        registers=driver if isinstance(driver, Registers) else None,
        banks=driver if isinstance(driver, Banks) else None,
        addresses=driver if isinstance(driver, Addresses) else None,
        copies=driver if isinstance(driver, Copies) else None,
    )
