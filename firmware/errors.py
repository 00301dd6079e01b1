# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with firmware, before any card is involved.

FirmwareError
|-- PlatformError            no such platform, or none that can be built for any more
|-- LinkError                a kernel that cannot be put on this platform as asked
|   `-- ResourceError            it needs more than the card has
|-- XclbinError              a file that is not an xclbin, or a damaged one
|-- ManifestError            a manifest.json that is none
|   `-- ManifestMismatchError    a manifest that describes another xclbin
|-- PublishError             a build that cannot enter this model repository
`-- VendorError              around the vendor's tools; its kinds are in bitstream/errors.py
"""

from __future__ import annotations


class FirmwareError(Exception):
    """Root of this room's errors."""


class PlatformError(FirmwareError):
    """No such platform, or one that is gone."""


class LinkError(FirmwareError):
    """The kernel cannot be linked as asked."""


class ResourceError(LinkError):
    """The kernel does not fit the card: which resource, how much it needs, how much there is."""


class XclbinError(FirmwareError):
    """The bytes are not a whole xclbin: what was looked for, what was found, what was expected."""


class ManifestError(FirmwareError):
    """The manifest cannot be read: which field, what it is, what was expected."""


class ManifestMismatchError(ManifestError):
    """The manifest describes another xclbin: which field, what it says, what the xclbin says."""


class PublishError(FirmwareError):
    """The build cannot be published into this model repository."""
