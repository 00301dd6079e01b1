# SPDX-License-Identifier: Apache-2.0
"""The vendors' programs on this machine: their paths, their releases, and the disk space that a build needs.

These checks take seconds, and are made before any step that takes hours. Source: UG1393 (environment).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hypersonic.firmware.platform import GIB, Platform
from hypersonic.firmware.toolchains.errors import MissingVendorError

#: tool -> the variable that the vendor's settings64.sh sets to its installation directory
HOMES = {"v++": "XILINX_VITIS", "vivado": "XILINX_VIVADO", "vitis-run": "XILINX_VITIS"}

#: estimated disk space of the build of one xclbin
BUILD_BYTES = 40 * GIB

_RELEASE = re.compile(r"\bv(20\d\d\.\d)(?:\.\d)?\b")
_ASK_TIMEOUT_S = 300


def find_program(name: str, platform: Platform, environment: Mapping[str, str] = os.environ) -> Path:
    """The path of a tool: from PATH, otherwise in $XILINX_VITIS/bin or $XILINX_VIVADO/bin. Raises MissingVendorError."""
    home = environment.get(HOMES[name], "")
    places = [environment.get("PATH", ""), str(Path(home) / "bin") if home else ""]
    program = shutil.which(name, path=os.pathsep.join(place for place in places if place))
    if program is None:
        raise MissingVendorError(
            f"target hw for {platform.name}: {name} is neither on PATH nor in ${HOMES[name]}/bin "
            f"({home or 'not set'}); install AMD Vitis{_suitable(platform)} and source its settings64.sh; "
            "sw_emu and hw_emu are built without the vendor's tools"
        )
    return Path(program)


def _suitable(platform: Platform) -> str:
    return f" {platform.newest_vitis} or older" if platform.newest_vitis else ""


def release_of(program: Path, option: str) -> str:
    """The release that the tool prints with that option, such as 2024.2. Raises MissingVendorError when the tool does not start
    or prints none."""
    try:
        output = subprocess.run(
            [str(program), option], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_ASK_TIMEOUT_S, check=False
        ).stdout[: 1 << 16]
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingVendorError(f"{program} {option} does not run: {error}; repair the installation") from error
    text = output.decode(errors="replace")
    match = _RELEASE.search(text)
    if match is None:
        last = text.strip().splitlines()[-1:] or ["nothing"]
        raise MissingVendorError(f"{program} {option} names no release; its last line is: {last[0][:200]}")
    return match[1]


def check_space(directory: Path, needed_bytes: int) -> None:
    """Raises MissingVendorError when the disk of `directory`, which need not exist, has less than needed_bytes free."""
    place = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < needed_bytes:
        raise MissingVendorError(
            f"{place} has {free / GIB:.0f} GiB free, place and route needs {needed_bytes / GIB:.0f}; "
            "make room or give another --build-directory"
        )
