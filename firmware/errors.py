# SPDX-License-Identifier: Apache-2.0
"""The errors of building firmware, before any card is involved.

::

    FirmwareError
    |-- PlatformError            there is no such platform, or its file is not valid
    |-- LinkError                the kernel cannot be put on this platform as requested
    |   `-- ResourceError            the kernel needs more than the card has
    |-- XclbinError              the file is not an xclbin, or is damaged
    |-- ManifestError            the file is not a valid manifest.json
    |   `-- ManifestMismatchError    the manifest describes another xclbin
    |-- PublishError             the build cannot be published into this model repository
    `-- VendorError              an error around the vendor's tools; its subclasses are in toolchains/errors.py
"""

from __future__ import annotations


class FirmwareError(Exception):
    """Base class of the errors of firmware/."""


class PlatformError(FirmwareError):
    """There is no such platform, or its file is not valid."""


class LinkError(FirmwareError):
    """The kernel cannot be linked as requested."""


class ResourceError(LinkError):
    """The kernel does not fit the card. The message names the resource, the amount needed and the amount available."""


class XclbinError(FirmwareError):
    """The bytes are not a complete xclbin. The message names the field, the value found and the value expected."""


class ManifestError(FirmwareError):
    """The manifest cannot be read. The message names the field, its value and the value expected."""


class ManifestMismatchError(ManifestError):
    """The manifest describes another xclbin. The message names the field, the manifest's value and the xclbin's."""


class PublishError(FirmwareError):
    """The build cannot be published into this model repository."""
