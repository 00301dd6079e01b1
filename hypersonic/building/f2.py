# SPDX-License-Identifier: Apache-2.0
"""What `hypersonic build --platform aws_f2` does otherwise: custom logic behind the F2 shell in the place of an XRT kernel."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypersonic.firmware.bitstream.afi import Bucket
from hypersonic.firmware.bitstream.errors import MissingVendorError
from hypersonic.firmware.f2.build import F2Build, build_f2, require_bucket
from hypersonic.firmware.f2.design import assemble_f2_xclbin, write_f2
from hypersonic.firmware.f2.kit import Kit, find_kit
from hypersonic.firmware.kernel.write import Kernel
from hypersonic.firmware.platform import Flow, Platform
from hypersonic.firmware.target import Target
from hypersonic.hls.core import CoreKind
from hypersonic.sim.f2 import build_f2_simulator

Progress = Callable[[str], None]


def is_f2(card: Platform) -> bool:
    return card.flow is Flow.F2_HDK


def find_f2_kit(card: Platform, core: str, kernel_mhz: int, bucket: str) -> tuple[Kit, Bucket]:
    """What a card's build needs, asked for before anything is converted. Raises MissingVendorError."""
    if not CoreKind(core).is_own_rtl:
        raise MissingVendorError(f"platform {card.name} takes --core da or rf, not {core}: Vitis HLS has no target for it")
    if kernel_mhz not in (0, card.kernel_clock_mhz):
        raise MissingVendorError(
            f"platform {card.name}: --kernel-mhz is {kernel_mhz}, but the shell's one clock is {card.kernel_clock_mhz} MHz"
        )
    kit = find_kit(card, image=True)
    return kit, require_bucket(card, Bucket(bucket) if bucket else None)


def emulate_f2(kernel: Kernel, card: Platform, compute_units: int, tools: dict[str, str], progress: Progress) -> bytes:
    """The container of a simulated F2 card: the compute units behind the shell's interfaces, one simulator for all of them."""
    with tempfile.TemporaryDirectory() as scratch:
        design = write_f2(kernel, compute_units, Path(scratch))
        image = build_f2_simulator(design, progress)
        return assemble_f2_xclbin(design, Target.HW_EMU, card, image.read_bytes(), tools)


def place_f2(
    kernel: Kernel, card: Platform, compute_units: int, kit: tuple[Kit, Bucket], builds: Path, needed_bytes: int,
    progress: Progress,
) -> F2Build:  # fmt: skip
    """The container of a card, with what the kit said of it."""
    with tempfile.TemporaryDirectory() as scratch:
        design = write_f2(kernel, compute_units, Path(scratch))
        return build_f2(design, card, kit[0], kit[1], builds, progress, needed_bytes=needed_bytes)
