# SPDX-License-Identifier: Apache-2.0
"""The interface of the toolchains: their options, the kernels that they take, and the bitstream that they make.

A toolchain turns kernels into the xclbin of a card. Each one is a folder beside this file with a function `find`, which checks
the machine before the long steps and returns a Toolchain::

    find(platform, core, options) --> Toolchain --link(name, kernels, directory)--> Bitstream

toolchains/known.py has the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.programs import BUILD_BYTES
from hypersonic.firmware.toolchains.steps import Progress
from hypersonic.hls.core import Core
from hypersonic.hls.project import HlsProject
from hypersonic.hls.resources import Amounts


@dataclass(frozen=True)
class CardOptions:
    """The options of a build for a card.

    Attributes:
        kernel_mhz: the frequency of ap_clk in MHz; 0: the card's default.
        lower_clock: accept an xclbin whose clock place and route had to lower.
        afi_bucket: the S3 bucket for an image of aws_f2.
        needed_bytes: disk space that must be free before a step is run.
    """

    kernel_mhz: int = 0
    lower_clock: bool = False
    afi_bucket: str = ""
    needed_bytes: int = BUILD_BYTES


@dataclass(frozen=True)
class KernelUnits:
    """A kernel to be linked with its number of compute units.

    Attributes:
        unit: the resources of one (estimate/kernel.py), if known.
    """

    kernel: Kernel
    compute_units: int = 1
    unit: Amounts | None = None


@dataclass(frozen=True)
class Bitstream:
    """The result of a build. report and tools are fields of the manifest.

    Attributes:
        build: the directory with logs and reports.
    """

    xclbin: Path
    report: dict[str, Any]
    tools: dict[str, str]
    build: Path


class Toolchain(Protocol):
    """The tools for one card, found on this machine."""

    def link(self, name: str, kernels: Sequence[KernelUnits], directory: Path, progress: Progress) -> Bitstream:
        """Build an xclbin below `directory`, or continue an interrupted build.

        Args:
            name: of the xclbin.
            progress: called with each step.

        Raises:
            StepError: When a tool fails, with its errors.
            TimingError: For a missed clock.
            MissingVendorError: For missing disk space.
            LinkError: For units that cannot be placed.
            ResourceError: For units that cannot be placed.
            XclbinError: For a bad product.
        """
        ...


@runtime_checkable
class SynthesisesCores(Toolchain, Protocol):
    """A toolchain that also generates a core from the HLS project (core hls)."""

    def synthesise(self, project: HlsProject, directory: Path, progress: Progress) -> Core:
        """Generate the core below `directory`, or continue. Raises StepError, MissingVendorError."""
        ...


#: finds a toolchain. core: how the RTL computes the network, a CoreKind; empty when only the model's YAML says it. Raises
#: MissingVendorError, which says what is missing and what to do, and LinkError
Find = Callable[[Platform, str, CardOptions], Toolchain]
