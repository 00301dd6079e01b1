# SPDX-License-Identifier: Apache-2.0
"""The errors around the vendor's tools.

::

    VendorError (a FirmwareError)
    |-- MissingVendorError    a tool, a shell, a licence, disk space or a bucket is missing; found before the long step
    |-- StepError             a tool ended without its product; the message has its errors and the path of its log
    `-- TimingError           the xclbin was built, but does not meet timing at the clock that was requested
"""

from __future__ import annotations

from hypersonic.firmware.errors import FirmwareError


class VendorError(FirmwareError):
    """Base class of the errors around the vendor's tools."""


class MissingVendorError(VendorError):
    """Something the build needs is missing on this machine. The message says where it was looked for and what to do."""


class StepError(VendorError):
    """A tool ended without its product. The message has the tool's errors, the path of its log and what to do."""

    exit_code = 1


class TimingError(VendorError):
    """The routed design misses timing. The message says by how much, and the clock at which the xclbin runs instead."""
