# SPDX-License-Identifier: Apache-2.0
"""The vendor's tools on this machine: their paths, their release, and whether they can build for a card.

These checks take seconds, and are made before any step that takes hours. Sources: UG1393 and UG1742 (environment, directories
of platforms), the release notes of each platform (newest_vitis).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware.bitstream.errors import MissingVendorError
from hypersonic.firmware.platform import GIB, Flow, Image, Platform
from hypersonic.firmware.xclbin.connectivity import check_vitis

#: tool -> the variable that the vendor's settings64.sh sets to its installation directory
HOMES = {"v++": "XILINX_VITIS", "vivado": "XILINX_VIVADO", "vitis-run": "XILINX_VITIS"}

#: the directory in which platform packages are installed
PLATFORMS_DIRECTORY = Path("/opt/xilinx/platforms")

#: estimated disk space of the build of one xclbin
BUILD_BYTES = 40 * GIB

_RELEASE = re.compile(r"\bv(20\d\d\.\d)(?:\.\d)?\b")
_ASK_TIMEOUT_S = 300
_SHOWN = 12


@dataclass(frozen=True)
class Tools:
    """The tools for building for one platform. release: of v++ and Vivado, such as 2024.2. shell: the platform's .xpfm file."""

    vpp: Path
    vivado: Path
    release: str
    shell: Path
    hls: Path | None = None  # vitis-run, when the hls core is requested
    aws: Path | None = None  # the AWS command line, for Image.AFI


def find_tools(platform: Platform, *, hls: bool = False, environment: Mapping[str, str] = os.environ) -> Tools:
    """The tools for building for `platform`. hls: whether Vitis HLS is needed.

    Raises MissingVendorError for a tool or a shell that is missing and for releases that do not match, LinkError for a release
    that no longer supports the platform.
    """
    if platform.flow is not Flow.XRT:
        raise MissingVendorError(
            f"platform {platform.name} has no XRT shell for v++ to link with; it is built with the AWS FPGA development kit"
        )
    programs = {name: find_program(name, platform, environment) for name in ("v++", "vivado")}
    release = release_of(programs["v++"], "--version")
    check_vitis(platform, release)
    _same_release(programs, release)
    shell = find_shell(platform, environment)
    aws = _aws(platform, environment) if platform.image is Image.AFI else None
    return Tools(
        programs["v++"], programs["vivado"], release, shell,
        find_program("vitis-run", platform, environment) if hls else None, aws,
    )  # fmt: skip


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


def _same_release(programs: Mapping[str, Path], release: str) -> None:
    """Raises MissingVendorError unless Vivado has v++'s release: v++ reads only kernels packaged by its own release."""
    vivado = release_of(programs["vivado"], "-version")
    if vivado != release:
        raise MissingVendorError(
            f"v++ is {release} ({programs['v++']}), but vivado is {vivado} ({programs['vivado']}); "
            "source the settings64.sh of one release"
        )


def find_shell(platform: Platform, environment: Mapping[str, str] = os.environ) -> Path:
    """The file <vbnv>.xpfm below $PLATFORM_REPO_PATHS, /opt/xilinx/platforms or $XILINX_VITIS. Raises MissingVendorError."""
    roots = _platform_roots(environment)
    for root in roots:
        for file in (root / f"{platform.vbnv}.xpfm", root / platform.vbnv / f"{platform.vbnv}.xpfm"):
            if file.is_file():
                return file
    installed = sorted({file.stem for root in roots for file in [*root.glob("*.xpfm"), *root.glob("*/*.xpfm")]})
    raise MissingVendorError(
        f"the shell of {platform.name} is not installed: {platform.vbnv}.xpfm is in none of "
        f"{', '.join(map(str, roots))} (installed: {', '.join(installed[:_SHOWN]) or 'none'}); install the platform's "
        "development package, or add its directory to PLATFORM_REPO_PATHS"
    )


def _platform_roots(environment: Mapping[str, str]) -> list[Path]:
    named = [Path(path) for path in environment.get("PLATFORM_REPO_PATHS", "").split(os.pathsep) if path]
    vitis = environment.get("XILINX_VITIS", "")
    inside = [Path(vitis) / name for name in ("platforms", "base_platforms")] if vitis else []
    return [*named, PLATFORMS_DIRECTORY, *inside]


def check_space(directory: Path, needed_bytes: int) -> None:
    """Raises MissingVendorError when the disk of `directory`, which need not exist, has less than needed_bytes free."""
    place = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < needed_bytes:
        raise MissingVendorError(
            f"{place} has {free / GIB:.0f} GiB free, place and route needs {needed_bytes / GIB:.0f}; "
            "make room or give another --build-directory"
        )


def _aws(platform: Platform, environment: Mapping[str, str]) -> Path:
    program = shutil.which("aws", path=environment.get("PATH", ""))
    if program is None:
        why = f" ({platform.retired})" if platform.retired else ""
        raise MissingVendorError(f"platform {platform.name} needs the AWS command line, which is not on PATH{why}")
    return Path(program)
