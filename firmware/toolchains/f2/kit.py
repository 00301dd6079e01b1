# SPDX-License-Identifier: Apache-2.0
"""The AWS FPGA development kit on this machine, and a check that it can build custom logic for F2, before the long build.

`source hdk_setup.sh` in a clone of https://github.com/aws/aws-fpga (branch f2) sets the variables, and fetches the shell's
checkpoint. Source: the kit's aws_build_dcp_from_cl.py and build_all.tcl, which read them. The kit itself has not been run for
this project.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.errors import MissingVendorError
from hypersonic.firmware.toolchains.programs import find_program, release_of

#: the variables that the kit's scripts read
VARIABLES = (
    "AWS_FPGA_REPO_DIR", "HDK_COMMON_DIR", "HDK_SHELL_DIR", "HDK_SHELL_DESIGN_DIR", "HDK_IP_SRC_DIR", "HDK_BD_SRC_DIR",
    "HDK_BD_GEN_DIR", "VIVADO_TOOL_VERSION",
)  # fmt: skip

#: the one shell that AWS supports on F2
SHELL_MODE = "small_shell"

#: scripts that a CL's build/scripts holds as links, and the files below $HDK_SHELL_DIR that every build needs
SCRIPTS = ("aws_build_dcp_from_cl.py", "build_all.tcl", "build_level_1_cl.tcl", "encrypt.tcl")
_FILES = (
    *(f"build/scripts/{name}" for name in (*SCRIPTS, "synth_cl_header.tcl", "synth_cl_footer.tcl")),
    f"build/checkpoints/from_aws/cl_bb_routed.{SHELL_MODE}.dcp", "shell_version.txt",
)  # fmt: skip
_DESIGN_FILES = ("interfaces/cl_ports.vh", "interfaces/unused_ddr_template.inc", "sh_ddr/synth/sh_ddr.sv")

_SET_UP = "clone https://github.com/aws/aws-fpga (branch f2) and `source hdk_setup.sh` in this shell"
_MOST_BYTES = 1 << 12


@dataclass(frozen=True)
class Kit:
    """The tools for building for F2.

    Attributes:
        version: of the kit.
        release: of Vivado.
        shell: $HDK_SHELL_DIR.
        aws: AWS' command line.
    """

    version: str
    shell: Path
    vivado: Path
    release: str
    python: Path
    aws: Path


def find_kit(platform: Platform, environment: Mapping[str, str] = os.environ) -> Kit:
    """The kit on this machine. Raises MissingVendorError, which names the first thing that is missing and what to do."""
    for name in VARIABLES:
        if not environment.get(name):
            raise MissingVendorError(
                f"platform {platform.name} is built with the AWS FPGA development kit: ${name} is not set; {_SET_UP}"
            )
    shell = Path(environment["HDK_SHELL_DIR"])
    wanted = [shell / name for name in _FILES] + [Path(environment["HDK_SHELL_DESIGN_DIR"]) / name for name in _DESIGN_FILES]
    for file in wanted:
        if not file.is_file():
            raise MissingVendorError(
                f"the AWS FPGA development kit lacks {file}: {_SET_UP} again, which fetches the shell's files"
            )
    vivado = find_program("vivado", platform, environment)
    return Kit(
        _version(Path(environment["AWS_FPGA_REPO_DIR"])), shell, vivado, release_of(vivado, "-version"),
        _program("python3", platform, environment), _program("aws", platform, environment),
    )  # fmt: skip


def _version(root: Path) -> str:
    """The kit's RELEASE_VERSION; "unknown" when its file does not have one."""
    try:
        with (root / "release_version.txt").open() as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return "unknown"
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("RELEASE_VERSION")), "unknown")


def _program(name: str, platform: Platform, environment: Mapping[str, str]) -> Path:
    program = shutil.which(name, path=environment.get("PATH", ""))
    if program is None:
        raise MissingVendorError(f"platform {platform.name} needs {name}, which is not on PATH")
    return Path(program)
