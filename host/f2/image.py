# SPDX-License-Identifier: Apache-2.0
"""Amazon FPGA images on the cards of this machine, by AWS' own commands (aws-fpga, sdk/userspace/fpga_mgmt_tools).

::

    fpga-describe-local-image-slots         AFIDEVICE    0       0x1d0f      0x9048      0000:34:00.0
    fpga-load-local-image -S 0 -I agfi-..   AFI          0       agfi-..  loaded            0        ok     0       0x10212415
                                            AFIDEVICE    0       0x1d0f      0xf010      0000:34:00.0

The commands are tested with stand-ins; they have not been run on an instance yet.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from hypersonic.host.errors import DeviceError, DeviceNotFoundError, LibraryNotFoundError
from hypersonic.host.sysfs import ADDRESS

#: the global id of an image; the BITSTREAM section of an F2 card's xclbin holds one
AGFI = re.compile(r"agfi-[0-9a-f]{17}")

_DEVICE = re.compile(r"AFIDEVICE\s+(\d{1,3})\s+0x[0-9a-f]{4}\s+0x[0-9a-f]{4}\s+([0-9a-f:.]+)")
_IMAGE = re.compile(r"AFI\s+(\d{1,3})\s+(\S+)\s+(\S+)\s+\d+\s+(\S+)")
_TIMEOUT_S = 300
_MOST_BYTES = 1 << 16


def slots() -> tuple[str, ...]:
    """The PCI address of each slot, in the order of the slots. Raises LibraryNotFoundError (no AWS tools), DeviceError."""
    return tuple(address for _, address in sorted(_devices(_run(["fpga-describe-local-image-slots"]))))


def load(slot: int, agfi: str) -> str:
    """Load an image on the card in `slot`, which takes seconds, and return the card's PCI address. Raises LibraryNotFoundError,
    DeviceNotFoundError, DeviceError with the tool's output."""
    output = _run(load_command(slot, agfi))
    image = _IMAGE.search(output)
    if image is None or image[2] != agfi or image[3] != "loaded":
        state = f"{image[2]} {image[3]} {image[4]}" if image else output.strip()[-200:] or "nothing"
        raise DeviceError(f"image {agfi} did not get onto the card in slot {slot}: fpga-load-local-image said {state}")
    address = dict(_devices(output)).get(slot)
    if address is None:
        raise DeviceNotFoundError(f"fpga-load-local-image names no card in slot {slot}; it said: {output.strip()[-200:]}")
    return address


def load_command(slot: int, agfi: str) -> list[str]:
    """The command that loads an image. Raises DeviceError for a text that is not an image's global id."""
    if not AGFI.fullmatch(agfi):
        raise DeviceError(f"image is {agfi[:40]!r}, expected agfi- and 17 hexadecimal digits")
    return ["fpga-load-local-image", "-S", str(slot), "-I", agfi]


def _devices(output: str) -> list[tuple[int, str]]:
    return [(int(slot), address) for slot, address in _DEVICE.findall(output) if ADDRESS.fullmatch(address)]


def _run(argv: Sequence[str]) -> str:
    program = shutil.which(argv[0])
    if program is None:
        raise LibraryNotFoundError(
            f"{argv[0]} is not on PATH: install AWS' FPGA tools (clone https://github.com/aws/aws-fpga, source sdk_setup.sh)"
        )
    try:
        done = subprocess.run(
            [program, *argv[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{' '.join(argv)} does not run: {error}") from error
    output = done.stdout[:_MOST_BYTES].decode(errors="replace")
    if done.returncode:
        raise DeviceError(
            f"{' '.join(argv)} ended with {done.returncode}: {output.strip()[-300:] or 'nothing output'}; it needs root"
        )
    return output
