# SPDX-License-Identifier: Apache-2.0
"""Kernels as the plan of their units needs them: with registers at their AXI ports where a unit is not on its memory's die.

The plan is xclbin/connectivity.py's. A kernel that has the registers keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.kernel.slices import SLICES
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.toolchain import KernelUnits
from hypersonic.firmware.xclbin.connectivity import place_kernels
from hypersonic.hls.resources import NOTHING


def registered(kernels: Sequence[KernelUnits], platform: Platform) -> list[KernelUnits]:
    """Return the kernels, with registers at the AXI ports of those that the plan puts on another die than their memory.

    Kernels that do not fit are returned as they are: the estimate, or the link, reports them.
    """
    described = [part.kernel.units(part.compute_units) for part in kernels]
    try:
        places = place_kernels(platform, described, [part.unit or NOTHING for part in kernels])
    except LinkError:
        return list(kernels)
    away = {place.unit for place in places if place.registered}
    needed = [
        not part.kernel.port_registers and (one.instances[0].name in away or _laid_out(part, platform))
        for part, one in zip(kernels, described, strict=True)
    ]
    if not any(needed):
        return list(kernels)
    # the registers themselves may move a unit to another die
    return registered([_with_registers(part) if new else part for part, new in zip(kernels, needed, strict=True)], platform)


def _laid_out(part: KernelUnits, platform: Platform) -> bool:
    """Whether the core is laid out over several dies, whatever its resources are."""
    return bool(part.kernel.core.cell_dies) and not platform.host_memory


def _with_registers(part: KernelUnits) -> KernelUnits:
    kernel = keep_kernel(part.kernel.core, port_registers=True)
    known = part.unit or NOTHING
    return replace(part, kernel=kernel, unit=known + SLICES if known != NOTHING else part.unit)
