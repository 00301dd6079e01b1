# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between this process and a card. Each message says what, got, expected and what to do.

DeviceError
|-- LibraryNotFoundError          no XRT library, or one that lacks a function
|-- DeviceNotFoundError           no card of that index
|-- DeviceBusyError               the card is used with another xclbin (EBUSY)
|-- DeviceLostError               the card does not answer any more (ENODEV, EIO, ...)
|-- XclbinMismatchError           the xclbin is not for this shell, or not the one the manifest describes
|-- WeightsError                  no weights.bin for a kernel that takes one, or another than the manifest describes
|-- ComputeUnitNotFoundError      the xclbin has no such kernel or compute unit
|-- BufferObjectError             a buffer that cannot be allocated, mapped or synchronised as asked
|-- RunError                      a run that cannot start, or ended in another state than COMPLETED
|   `-- MemoryAccessError             a run that completed although the memory answered it with errors
|-- ComputeUnitTimeoutError       a run that did not complete in time
|-- ComputeUnitOutOfServiceError  use of a compute unit after that
`-- DeviceClosedError             use of a handle after close()
"""

from __future__ import annotations

import errno
import os


class DeviceError(Exception):
    """Root of this room's errors."""


class LibraryNotFoundError(DeviceError):
    """No XRT library can be loaded."""


class DeviceNotFoundError(DeviceError):
    """There is no card of that index."""


class DeviceBusyError(DeviceError):
    """The card is used with another xclbin, by this process or another."""


class DeviceLostError(DeviceError):
    """The card does not answer any more; nothing on it can be used again before a reset."""


class XclbinMismatchError(DeviceError):
    """The xclbin does not fit the shell on the card or the manifest beside it."""


class WeightsError(DeviceError):
    """The file of the kernel's weights is not there, or not the one that was published."""


class ComputeUnitNotFoundError(DeviceError):
    """The xclbin has no such kernel or compute unit."""


class BufferObjectError(DeviceError):
    """A buffer object cannot be allocated, mapped or synchronised as asked."""


class RunError(DeviceError):
    """A run cannot start or ended in another state than COMPLETED."""


class MemoryAccessError(RunError):
    """The memory answered an access of the compute unit with an error: what its runs computed is not to be trusted."""


class ComputeUnitTimeoutError(DeviceError):
    """A run did not complete in time."""


class ComputeUnitOutOfServiceError(DeviceError):
    """The compute unit was lost before; the card needs a reset, or has to come back, before it can be used again."""


class DeviceClosedError(DeviceError):
    """The handle was closed."""


#: errno -> error and what to do, the same whichever call reported it
_CAUSES: dict[int, tuple[type[DeviceError], str]] = {
    errno.EBUSY: (DeviceBusyError, "it is used with another xclbin, by this process or another: `xrt-smi examine` tells"),
    errno.EOPNOTSUPP: (
        XclbinMismatchError,
        "the xclbin is built for another shell: build it for the platform `xrt-smi examine` shows, or flash that shell",
    ),
    errno.ENODEV: (DeviceLostError, "the card is gone from the bus: `xrt-smi reset`, then start again"),
    errno.EIO: (DeviceLostError, "the card answers with errors: `xrt-smi reset`, then start again"),
    errno.ESHUTDOWN: (DeviceLostError, "the card was shut down: `xrt-smi reset`, then start again"),
    errno.ETIMEDOUT: (DeviceLostError, "the card does not answer: `xrt-smi reset`, then start again"),
    errno.EACCES: (DeviceBusyError, "this user may not open the card: check the rights of /dev/dri/renderD*"),
    errno.ENOMEM: (BufferObjectError, "the memory bank is full: fewer or smaller slots, or stop who else uses the card"),
}


def failure(error: type[DeviceError], what: str, code: int) -> DeviceError:
    """The error for a failed call: by its errno where that tells the cause, else `error`.

    code: an errno, positive or negative; 0 or -1 when XRT told none.
    """
    number = abs(code)
    if number == errno.ENODEV and error is DeviceNotFoundError:
        return error(f"{what}: there is no such card; `hypersonic devices` lists those there are")
    kind, advice = _CAUSES.get(number, (error, "XRT's own message stands above on standard error"))
    name = errno.errorcode.get(number) if number > 1 else None
    return kind(f"{what}: XRT answered {name} ({os.strerror(number)}); {advice}" if name else f"{what}; {advice}")
