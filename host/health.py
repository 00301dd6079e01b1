# SPDX-License-Identifier: Apache-2.0
"""What a compute unit's own registers tell of its health, where they can be read and are those of this project's kernels.

    VERSION     reads as expected: the card is there. All ones: it is off the bus (PCI Express answers so for what is gone)
    CONTROL     ap_idle: no run is in flight. A unit that hangs is not idle, whoever opens it, until its card is reset
    AXI_ERROR   the memory answered an access with an error since reset: answers of this unit may be wrong

XRT lets registers be read through an exclusive handle only, its noop shim answers anything: VERSION decides, once, at load.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hypersonic.firmware.kernel import registers
from hypersonic.host.errors import ComputeUnitOutOfServiceError, DeviceError, DeviceLostError, MemoryAccessError

#: gives a register's value by its offset
Read = Callable[[int], int]

#: how long a unit may work on a run of whoever had it before
_IDLE_TIMEOUT_S = 1.0
_POLL_S = 0.01


def tells(read: Read) -> bool:
    """Whether the registers can be read and are those this project knows."""
    try:
        return read(registers.VERSION) >> 16 == registers.MAP_VERSION >> 16
    except DeviceError:
        return False


def check_present(name: str, read: Read, reset: str) -> None:
    """Raises DeviceLostError when the unit does not answer any more. reset: what to do about it, here and below."""
    try:
        version = read(registers.VERSION)
    except DeviceError as error:
        raise DeviceLostError(f"compute unit {name} does not answer: {error}") from error
    if version >> 16 != registers.MAP_VERSION >> 16:
        raise DeviceLostError(
            f"compute unit {name} reads {version:#010x} at VERSION, expected {registers.MAP_VERSION:#010x}: "
            f"the card is gone from the bus or was reset; {reset} when it does not come back"
        )


def check_fit(name: str, read: Read, reset: str) -> None:
    """Raises ComputeUnitOutOfServiceError when a run hangs on the unit, or its memory answered with errors."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    while not read(registers.CONTROL) & registers.AP_IDLE:
        if time.monotonic() > deadline:
            raise ComputeUnitOutOfServiceError(
                f"compute unit {name} is not idle before its first run: another run hangs on it or is somebody else's; {reset}"
            )
        time.sleep(_POLL_S)
    if accesses := _failed_accesses(read):
        raise ComputeUnitOutOfServiceError(
            f"compute unit {name} has AXI_ERROR set before its first run ({accesses} since reset): {reset}"
        )


def check_accesses(name: str, read: Read, reset: str) -> None:
    """After a run. Raises MemoryAccessError when the memory answered it, or one before, with an error."""
    if accesses := _failed_accesses(read):
        raise MemoryAccessError(
            f"a run on {name} completed, but the memory answered {accesses} with an error (AXI_ERROR): its results are not "
            f"to be trusted; the compute unit is out of service and the others go on: {reset}"
        )


def _failed_accesses(read: Read) -> str:
    """What the memory refused since reset; empty for nothing."""
    error = read(registers.AXI_ERROR)
    kinds = {registers.READ_ERROR: "a read", registers.WRITE_ERROR: "a write"}
    return " and ".join(kind for bit, kind in kinds.items() if error & bit)
