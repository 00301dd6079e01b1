# SPDX-License-Identifier: Apache-2.0
"""The vendor's tools on this machine: their paths, their release, and whether they can build for a card.

These checks take seconds, and are made before any step that takes hours. Sources: UG1393 and UG1742 (environment, directories
of platforms), the release notes of each platform (newest_vitis).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.errors import MissingVendorError
from hypersonic.firmware.toolchains.programs import find_program, release_of
from hypersonic.firmware.toolchains.vitis.config import check_vitis

#: the directory in which platform packages are installed
PLATFORMS_DIRECTORY = Path("/opt/xilinx/platforms")

_SHOWN = 12


@dataclass(frozen=True)
class Tools:
    """The tools for building for one platform.

    Attributes:
        release: of v++ and Vivado, such as 2024.2.
        shell: the platform's .xpfm file.
    """

    vpp: Path
    vivado: Path
    release: str
    shell: Path
    hls: Path | None = None  # vitis-run, when the hls core is requested


def find_tools(platform: Platform, *, hls: bool = False, environment: Mapping[str, str] = os.environ) -> Tools:
    """The tools for building for `platform`.

    Args:
        hls: whether Vitis HLS is needed.

    Raises:
        MissingVendorError: For a tool or a shell that is missing and for releases that do not match.
        LinkError: For a release that no longer supports the platform.
    """
    programs = {name: find_program(name, platform, environment) for name in ("v++", "vivado")}
    release = release_of(programs["v++"], "--version")
    check_vitis(platform, release)
    _same_release(programs, release)
    shell = find_shell(platform, environment)
    hls_program = find_program("vitis-run", platform, environment) if hls else None
    return Tools(programs["v++"], programs["vivado"], release, shell, hls_program)


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
