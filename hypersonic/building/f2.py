# SPDX-License-Identifier: Apache-2.0
"""The steps of `hypersonic build --platform aws_f2`, which builds custom logic for the F2 shell instead of an XRT kernel."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hypersonic.firmware.bitstream.afi import Bucket
from hypersonic.firmware.f2.build import F2Build, build_f2
from hypersonic.firmware.f2.design import assemble_f2_xclbin, write_f2_kernels
from hypersonic.firmware.f2.kit import Kit
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.sim.f2 import build_f2_simulator

Progress = Callable[[str], None]


def emulate_f2(kernels: Sequence[tuple[Kernel, int]], platform: Platform, tools: dict[str, str], progress: Progress) -> bytes:
    """Return the xclbin of an emulated F2 card, with one simulator for all compute units behind the shell's interfaces.

    kernels: each with its number of compute units. tools: the versions of the tools used so far, by name. progress: called with
    one line per step.
    """
    with tempfile.TemporaryDirectory() as scratch:
        design = write_f2_kernels(kernels, Path(scratch))
        image = build_f2_simulator(design, progress)
        return assemble_f2_xclbin(design, Target.HW_EMU, platform, image.read_bytes(), tools)


def place_f2(
    kernels: Sequence[tuple[Kernel, int]], platform: Platform, kit: tuple[Kit, Bucket], builds: Path, needed_bytes: int,
    progress: Progress,
) -> F2Build:  # fmt: skip
    """Build for an F2 card with the AWS development kit; return the xclbin and the kit's report.

    kernels: each with its number of compute units. kit: the kit and the S3 bucket for the image. builds: the directory for
    place and route. needed_bytes: free disk space that is required there. progress: called with one line per step.
    """
    with tempfile.TemporaryDirectory() as scratch:
        design = write_f2_kernels(kernels, Path(scratch))
        return build_f2(design, platform, kit[0], kit[1], builds, progress, needed_bytes=needed_bytes)
