# SPDX-License-Identifier: Apache-2.0
"""The errors between this process and a card. Each message names the failure, the values got and expected, and what to do.

::

    DeviceError
    |-- LibraryNotFoundError          there is no XRT library, or it lacks a function
    |-- DeviceNotFoundError           there is no card with that index
    |-- DeviceBusyError               the card is in use with another xclbin (EBUSY)
    |-- DeviceLostError               the card no longer responds (ENODEV, EIO, ...)
    |-- XclbinMismatchError           the xclbin is not for this shell, or not the one that the manifest describes
    |-- WeightsError                  weights.bin is missing, or not the one that the manifest describes
    |-- ComputeUnitNotFoundError      the xclbin has no such kernel or compute unit
    |-- BufferObjectError             a buffer cannot be allocated, mapped or synchronised as requested
    |-- RunError                      a run cannot start, or has ended in a state other than COMPLETED
    |   `-- MemoryAccessError             a run has completed, but the memory has responded to it with errors
    |-- ComputeUnitTimeoutError       a run has not completed in time
    |-- ComputeUnitOutOfServiceError  a compute unit was used after that
    `-- DeviceClosedError             a handle was used after close()
"""

from __future__ import annotations

import errno
import os


class DeviceError(Exception):
    """Base class of the errors of host/."""


class LibraryNotFoundError(DeviceError):
    """No XRT library can be loaded."""


class DeviceNotFoundError(DeviceError):
    """There is no card with that index."""


class DeviceBusyError(DeviceError):
    """The card is in use with another xclbin, by this process or another, or this user may not open it."""


class DeviceLostError(DeviceError):
    """The card no longer responds, and cannot be used before it is reset."""


class XclbinMismatchError(DeviceError):
    """The xclbin does not match the shell on the card, or the manifest published with it."""


class WeightsError(DeviceError):
    """The file with the kernel's weights is missing, or is not the one that was published."""


class ComputeUnitNotFoundError(DeviceError):
    """The xclbin has no such kernel or compute unit."""


class BufferObjectError(DeviceError):
    """A buffer object cannot be allocated, mapped or synchronised as requested."""


class RunError(DeviceError):
    """A run cannot start, or has ended in a state other than COMPLETED."""


class MemoryAccessError(RunError):
    """The memory responded to an access of the compute unit with an error, so the results of its runs may be wrong."""


class ComputeUnitTimeoutError(DeviceError):
    """A run has not completed in time."""


class ComputeUnitOutOfServiceError(DeviceError):
    """The compute unit was taken out of service earlier; the card must be reset, or return to the bus, before it is used."""


class DeviceClosedError(DeviceError):
    """The handle was closed."""


_MORE_FILES = "this process or the machine has too many open files: raise the limit (`ulimit -n`)"
_FULL = "the memory bank is full: use fewer or smaller slots, or stop other users of the card"

#: errno -> error and what to do, the same whichever call reported it: open() of a device node, an ioctl, or XRT itself
CAUSES: dict[int, tuple[type[DeviceError], str]] = {
    errno.EBUSY: (DeviceBusyError, "it is in use with another xclbin, by this process or another: see `xrt-smi examine`"),
    errno.EOPNOTSUPP: (
        XclbinMismatchError,
        "the xclbin is built for another shell: build it for the platform `xrt-smi examine` shows, or flash that shell",
    ),
    errno.ENODEV: (DeviceLostError, "the card is gone from the bus: `xrt-smi reset`, then start again"),
    errno.EIO: (DeviceLostError, "the card answers with errors: `xrt-smi reset`, then start again"),
    errno.ESHUTDOWN: (DeviceLostError, "the card was shut down: `xrt-smi reset`, then start again"),
    errno.ETIMEDOUT: (DeviceLostError, "the card does not answer: `xrt-smi reset`, then start again"),
    errno.ENXIO: (DeviceLostError, "no driver answers for the card's device node: `xrt-smi reset`, or load the driver again"),
    errno.EACCES: (DeviceBusyError, "this user may not open the card: check the rights of /dev/dri/renderD*"),
    errno.EPERM: (
        DeviceBusyError,
        "this process was not given the card by its batch job or container; otherwise check the rights of /dev/dri/renderD*",
    ),
    errno.EAGAIN: (DeviceBusyError, "another process is changing the card: try again"),
    errno.EINTR: (DeviceBusyError, "a signal interrupted the call: try again"),
    errno.ENOMEM: (BufferObjectError, _FULL),
    errno.ENOSPC: (BufferObjectError, _FULL),
    errno.EMFILE: (DeviceError, _MORE_FILES),
    errno.ENFILE: (DeviceError, _MORE_FILES),
    errno.ENOTTY: (DeviceError, "the driver does not know this call: install driver and library from one package of XRT"),
    errno.ENOSYS: (DeviceError, "the driver does not know this call: install driver and library from one package of XRT"),
}


def failure(error: type[DeviceError], what: str, code: int) -> DeviceError:
    """The error for a failed call: its class follows from the errno if that identifies the cause, otherwise it is `error`.

    Args:
        what: the beginning of the message.
        code: an errno, positive or negative; 0 or -1 when XRT gave none, so that EPERM has to be positive.
    """
    number = 0 if code == -1 else abs(code)
    if number == errno.ENODEV and error is DeviceNotFoundError:
        return error(f"{what}: there is no such card; `hypersonic devices` lists the cards")
    kind, advice = CAUSES.get(number, (error, "XRT's own message is above, on standard error"))
    name = errno.errorcode.get(number)
    return kind(f"{what}: XRT answered {name} ({os.strerror(number)}); {advice}" if name else f"{what}; {advice}")
