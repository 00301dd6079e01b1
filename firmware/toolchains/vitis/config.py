# SPDX-License-Identifier: Apache-2.0
"""The file for `v++ --link --config`: the memory banks, the die and the clock of each compute unit.

Sources of the lines:

::

    kernel_frequency=0:MHZ      scalable clocks, ID 0 drives ap_clk: UG1393 2023.1, "Identifying Platform Clocks" and "Managing
                                Clock Frequencies"; rtl_vadd_2clks of Xilinx/Vitis_Accel_Examples;
                                also for later releases: UG1393 2023.2, "--clock Options"
    [clock] freqHz=HZ:UNIT      fixed clocks only: UG1393 2023.1, "--clock Options"
    [connectivity] nk, sp, slr  UG1702, "--connectivity Options"; names separated by commas from 2024.2 on
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.kernel.vitis_xml import KernelDescription
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.xclbin.connectivity import UnitPlacement, bank_range


def check_vitis(platform: Platform, release: str) -> None:
    """Raises LinkError for a Vitis release, such as 2024.2 or 2024.2.1, that no longer supports the platform's shell."""
    if platform.newest_vitis and _release(release) > _release(platform.newest_vitis):
        raise LinkError(
            f"Vitis {release} no longer supports {platform.name}: expected {platform.newest_vitis} or older; install that "
            "release, several can be installed side by side"
        )


def _release(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(20\d\d)\.(\d)(\.\d+)?", text)
    if not match:
        raise LinkError(f"Vitis release is {text!r:.40}, expected one such as 2025.1")
    return int(match[1]), int(match[2])


def vpp_config(
    platform: Platform,
    kernels: Sequence[KernelDescription],
    places: Sequence[UnitPlacement],
    *,
    vitis: str,
    kernel_mhz: int = 0,
) -> str:
    """The text of the file for `v++ -l --config`.

    Args:
        vitis: the release that will read it.
        kernel_mhz: frequency of ap_clk; 0: the platform's default.

    Raises:
        LinkError: For a release that no longer supports the platform.
    """
    check_vitis(platform, vitis)
    separator = "," if _release(vitis) >= (2024, 2) else "."
    mhz = kernel_mhz or platform.kernel_clock_mhz
    title = f"Kernel{'s' * (len(kernels) > 1)} {', '.join(kernel.name for kernel in kernels)}"
    lines = [
        f"# {title} on {platform.name} ({platform.vbnv}), for Vitis {vitis}: written by hypersonic, do not edit.",
        *([f"kernel_frequency=0:{mhz}", ""] if platform.scalable_clock else []),
        "[connectivity]",
        *(_nk(kernel, separator) for kernel in kernels),
        *(f"sp={place.unit}.{port}:{bank_range(platform, banks)}" for place in places for port, banks in place.ports),
        *(f"slr={place.unit}:SLR{place.slr}" for place in places if place.slr is not None),
    ]
    if not platform.scalable_clock:
        lines += ["", "[clock]", *(f"freqHz={mhz * 1_000_000}:{place.unit}" for place in places)]
    return "\n".join(lines) + "\n"


def _nk(kernel: KernelDescription, separator: str) -> str:
    units = [unit.name for unit in kernel.instances]
    return f"nk={kernel.name}:{len(units)}:{separator.join(units)}"
