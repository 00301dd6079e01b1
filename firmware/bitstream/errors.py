# SPDX-License-Identifier: Apache-2.0
"""What can go wrong around the vendor's tools.

VendorError (a FirmwareError)
|-- MissingVendorError    a tool, a shell, a licence, disk space or a bucket is not there: found before the long step
|-- StepError             a tool ended without its product: its last lines, and where its log is
`-- TimingError           the xclbin is there, but its clock is not the one that was asked for
"""

from __future__ import annotations

from hypersonic.firmware.errors import FirmwareError


class VendorError(FirmwareError):
    """Root of this package's errors."""


class MissingVendorError(VendorError):
    """Something the build needs is not on this machine: what, where it was looked for, what to do."""


class StepError(VendorError):
    """A tool ended without what it was called for: which, what it said, where the log is, what to do."""

    exit_code = 1


class TimingError(VendorError):
    """Place and route missed the clock: by how much, what the xclbin runs at instead, what to do."""
