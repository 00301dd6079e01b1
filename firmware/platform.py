# SPDX-License-Identifier: Apache-2.0
"""Cards as data: what a kernel is built for, and what an xclbin says about it.

Sources: UG1120 and UG1393 (cards), `xclbinutil --info` of U250 xclbins (memory map, clocks), Vitis platform names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypersonic.firmware.errors import PlatformError

GIB = 1 << 30
MIB = 1 << 20


class Target(StrEnum):
    """What a build runs on, spelled as v++ spells it."""

    SW_EMU = "sw_emu"  # the model's compiled C++ behind a C++ shell
    HW_EMU = "hw_emu"  # the Verilated kernel
    HW = "hw"  # a card

    @property
    def emulated(self) -> bool:
        return self is not Target.HW


@dataclass(frozen=True)
class MemoryBank:
    """One memory a kernel's master port can be connected to."""

    tag: str  # as MEM_TOPOLOGY names it, at most 15 characters
    kind: str  # DDR4 or HBM
    base_address: int
    size_bytes: int


@dataclass(frozen=True)
class Platform:
    """A card and the shell on it.

    kernel_clock_mhz is what ap_clk gets by default; system_clock_mhz the shell's second kernel clock (ap_clk_2).
    """

    name: str
    part: str
    vbnv: str  # the platform's full name, as v++ --platform takes it
    slrs: int
    kernel_clock_mhz: int
    system_clock_mhz: int
    pcie: str
    memory: tuple[MemoryBank, ...]
    interface_uuid: str = "00000000000000000000000000000000"  # the shell a hw xclbin must match
    control_base: int = 0x1800000  # s_axi_control of the first compute unit
    retired: str = ""  # why nothing can be built for it any more; empty for a living platform


def _ddr4() -> tuple[MemoryBank, ...]:
    """Four DIMMs of 16 GiB, one beside each SLR."""
    return tuple(MemoryBank(f"bank{i}", "DDR4", 0x4000000000 + i * 0x1000000000, 16 * GIB) for i in range(4))


def _hbm(channel_bytes: int) -> tuple[MemoryBank, ...]:
    """The 32 pseudo channels of one HBM stack pair, without gaps from address 0."""
    return tuple(MemoryBank(f"HBM[{i}]", "HBM", i * channel_bytes, channel_bytes) for i in range(32))


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform(
            name="u250", part="xcu250-figd2104-2L-e", vbnv="xilinx_u250_gen3x16_xdma_4_1_202210_1", slrs=4,
            kernel_clock_mhz=300, system_clock_mhz=500, pcie="Gen3 x16", memory=_ddr4(),
            interface_uuid="807a580e5f507d48484d26c2217aa787",
        ),
        Platform(
            name="u200", part="xcu200-fsgd2104-2-e", vbnv="xilinx_u200_gen3x16_xdma_2_202110_1", slrs=3,
            kernel_clock_mhz=300, system_clock_mhz=500, pcie="Gen3 x16", memory=_ddr4(),
        ),
        Platform(
            name="u55c", part="xcu55c-fsvh2892-2L-e", vbnv="xilinx_u55c_gen3x16_xdma_3_202210_1", slrs=3,
            kernel_clock_mhz=300, system_clock_mhz=500, pcie="Gen3 x16", memory=_hbm(512 * MIB),
        ),
        Platform(
            name="aws_f2", part="xcvu47p-fsvh2892-2-e", vbnv="xilinx_aws-vu47p-f2_202410_1", slrs=3,
            kernel_clock_mhz=250, system_clock_mhz=500, pcie="Gen4 x8", memory=_hbm(512 * MIB),
        ),
        Platform(
            name="aws_f1", part="xcvu9p-flgb2104-2-i", vbnv="xilinx_aws-vu9p-f1_shell-v04261818_201920_3", slrs=3,
            kernel_clock_mhz=250, system_clock_mhz=500, pcie="Gen3 x16", memory=(),
            retired="AWS ended the F1 instances on 20 December 2025; their successor is aws_f2",
        ),
    )
}  # fmt: skip


def find_platform(name: str) -> Platform:
    """The platform of that name. Raises PlatformError for an unknown or retired one, naming those there are."""
    alive = ", ".join(sorted(known.name for known in PLATFORMS.values() if not known.retired))
    platform = PLATFORMS.get(name)
    if platform is None:
        raise PlatformError(f"platform is {name!r}, expected one of {alive}")
    if platform.retired:
        raise PlatformError(f"platform {name} is retired: {platform.retired}; build for one of {alive}")
    return platform
