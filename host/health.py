# SPDX-License-Identifier: Apache-2.0
"""The health of a compute unit, from its registers, where they can be read and are those of this project's kernels.

::

    VERSION     the expected value: the card is present. All ones: it is gone (PCI Express reads of absent devices give ones)
    CONTROL     ap_idle: no run is in flight. A hung unit is not idle, for any process that opens it, until its card is reset
    AXI_ERROR   since reset, the memory has responded to an access with an error, and results of this unit may be wrong

XRT allows registers to be read only through an exclusive handle, and its noop shim returns arbitrary values. Whether the
registers can be used is therefore decided once, at load, by VERSION.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hypersonic.firmware.kernel import registers
from hypersonic.host.errors import ComputeUnitOutOfServiceError, DeviceError, DeviceLostError, MemoryAccessError

#: returns the value of the register at an offset
Read = Callable[[int], int]

#: how long a unit may still work on a run of the process that used it before
_IDLE_TIMEOUT_S = 1.0
_POLL_S = 0.01


def tells(read: Read) -> bool:
    """True if the registers can be read and are those of this project's kernels."""
    try:
        return read(registers.VERSION) >> 16 == registers.MAP_VERSION >> 16
    except DeviceError:
        return False


def check_present(name: str, read: Read, reset: str) -> None:
    """Check that a unit responds.

    Args:
        reset: the instruction for the message, here and below.

    Raises:
        DeviceLostError: When the unit no longer responds.
    """
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
    """Check a unit before its first run. Raises ComputeUnitOutOfServiceError when an earlier run is still hung, or the memory
    has responded with errors."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    while not read(registers.CONTROL) & registers.AP_IDLE:
        if time.monotonic() > deadline:
            raise ComputeUnitOutOfServiceError(
                f"compute unit {name} is not idle before its first run: an earlier run is still hung, or another process "
                f"runs it; {reset}"
            )
        time.sleep(_POLL_S)
    if accesses := _failed_accesses(read):
        raise ComputeUnitOutOfServiceError(
            f"compute unit {name} has AXI_ERROR set before its first run ({accesses} since reset): {reset}"
        )


def check_accesses(name: str, read: Read, reset: str) -> None:
    """Check the memory's responses after a run. Raises MemoryAccessError when one of this or an earlier run was an error."""
    if accesses := _failed_accesses(read):
        raise MemoryAccessError(
            f"a run on {name} completed, but the memory responded to {accesses} with an error (AXI_ERROR): its results may be "
            f"wrong; the compute unit is out of service and the others continue: {reset}"
        )


def _failed_accesses(read: Read) -> str:
    """The kinds of access, as words, to which the memory has responded with an error since reset; empty for none."""
    error = read(registers.AXI_ERROR)
    kinds = {registers.READ_ERROR: "a read", registers.WRITE_ERROR: "a write"}
    return " and ".join(kind for bit, kind in kinds.items() if error & bit)
