# SPDX-License-Identifier: Apache-2.0
"""The xclbin of an emulated card, for each way of driving cards.

An emulation makes the simulators that stand in the place of a bitstream. sw_emu is the same for every platform: it runs the
models' C++, so it needs no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.project import HlsProject

Progress = Callable[[str], None]


@dataclass(frozen=True)
class EmulatedModel:
    """A model for an emulated card.

    Attributes:
        kernel: None for sw_emu.
        weights: whether the kernel loads its weights at run time.
        digest: of the kernel without its weights, or of the model's C++.
    """

    project: HlsProject
    kernel: Kernel | None
    compute_units: int
    weights: bool
    digest: str


class Emulation(Protocol):
    """The functions of an emulation, which is a module."""

    def check(self, kernel: Kernel) -> None:
        """Raise ToolMemoryError if Verilator would need more memory for the kernel than its limit."""
        ...

    def emulate(
        self, models: Sequence[EmulatedModel], target: Target, platform: Platform, tools: Mapping[str, str], progress: Progress
    ) -> bytes:
        """Return the xclbin's bytes.

        Raises ToolError, KernelError, LinkError.

        Args:
            tools: name -> version.
        """
        ...

    def simulators(self, xclbin: Xclbin) -> Mapping[str, bytes]:
        """The simulator of each kernel of an xclbin, by name. Raises XclbinError."""
        ...
