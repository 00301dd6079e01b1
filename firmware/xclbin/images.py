# SPDX-License-Identifier: Apache-2.0
"""The simulators in the section BITSTREAM of an emulated card.

::

    one kernel        its simulator, an ELF shared library
    several kernels   a ustar archive without compression, with a member <kernel>.so for each, in the order of the kernels

For an AWS F2 card, one library simulates all kernels behind the shell. It is never an archive.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.xclbin.container import Xclbin

#: the end of a member's name
SUFFIX = ".so"


def pack_images(images: Mapping[str, bytes]) -> bytes:
    """The payload of BITSTREAM for the simulators of these kernels, by name. Equal arguments give equal bytes."""
    if len(images) == 1:
        return next(iter(images.values()))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for kernel, image in images.items():
            member = tarfile.TarInfo(f"{kernel}{SUFFIX}")
            member.size, member.mode = len(image), 0o755
            archive.addfile(member, io.BytesIO(image))
    return buffer.getvalue()


def kernel_images(xclbin: Xclbin) -> dict[str, bytes]:
    """The simulator of each kernel of an emulated XRT card, by name. Raises XclbinError for an archive that is incomplete or
    has other members than the kernels' simulators."""
    names = [kernel.name for kernel in xclbin.kernels]
    if len(names) == 1:
        return {names[0]: xclbin.bitstream}
    expected = [f"{name}{SUFFIX}" for name in names]
    images = dict[str, bytes]()
    try:
        with tarfile.open(fileobj=io.BytesIO(xclbin.bitstream), mode="r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or member.name not in expected or member.name in images:
                    raise XclbinError(f"BITSTREAM has a member {member.name[:80]!r}, expected the files {', '.join(expected)}")
                images[member.name] = content.read()
                if len(images[member.name]) != member.size:
                    raise XclbinError(f"BITSTREAM ends within {member.name}")
    except tarfile.TarError as error:
        raise XclbinError(f"BITSTREAM is not an archive of the simulators {', '.join(expected)}: {error}") from error
    if missing := [name for name in expected if name not in images]:
        raise XclbinError(f"BITSTREAM lacks the simulators {', '.join(missing)}")
    return {name: images[f"{name}{SUFFIX}"] for name in names}
