# SPDX-License-Identifier: Apache-2.0
"""Which kernels the plan of their units gives registers at their AXI ports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.slices import SLICES
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.toolchains.port_registers import registered
from hypersonic.firmware.toolchains.toolchain import KernelUnits
from hypersonic.firmware.xclbin.connectivity import place_kernels
from hypersonic.hls.resources import Amounts
from hypersonic.sim.bench_core import bench_rows, write_bench_core

U200, U250, U55C, F2 = (find_platform(name) for name in ("u200", "u250", "u55c", "aws_f2"))


def _kernel(directory: Path, name: str = "alpha") -> Kernel:
    return keep_kernel(write_bench_core(*bench_rows(3, 2), directory / name, name=name))


@pytest.mark.parametrize(
    ("platform", "units", "unit", "wanted"),
    [
        (U250, 4, Amounts(lut=36_000), False),
        (U250, 4, None, False),
        (U250, 1, Amounts(lut=250_000), True),
        (U55C, 1, None, False),
        (U55C, 2, None, True),
        (F2, 4, Amounts(lut=36_000), False),
        (U250, 1, Amounts(lut=10_000_000), False),
    ],
    ids=["own die", "unknown", "several dies", "hbm at slr0", "hbm over slrs", "host memory", "refused later"],
)
def test_the_plan_decides(tmp_path: Path, platform: Platform, units: int, unit: Amounts | None, wanted: bool) -> None:
    kernel = _kernel(tmp_path)
    (part,) = registered([KernelUnits(kernel, units, unit)], platform)
    assert part.kernel.port_registers == wanted
    assert part.kernel == keep_kernel(kernel.core, port_registers=wanted)
    assert part.unit == (unit + SLICES if unit and wanted else unit)
    assert registered([part], platform) == [part]


def test_a_core_laid_out_over_several_dies_has_them_on_a_card_with_memory(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path)
    laid = replace(kernel, core=replace(kernel.core, cell_dies=(("u_a", 0), ("u_b", 1))))
    for platform, wanted in ((U250, True), (F2, False)):
        (part,) = registered([KernelUnits(laid, 1)], platform)
        assert part.kernel.port_registers == wanted


def test_registers_that_move_a_unit_to_another_die_are_planned_with_it(tmp_path: Path) -> None:
    """The larger one is not on its memory's die, and with its registers it leaves no room there for the other."""
    parts = [KernelUnits(_kernel(tmp_path, "near"), 1, Amounts(lut=75_000))]
    parts.append(KernelUnits(_kernel(tmp_path, "far"), 1, Amounts(lut=120_000)))
    described, amounts = [part.kernel.units(1) for part in parts], [Amounts(lut=75_000), Amounts(lut=120_000)]
    places = place_kernels(U200, described, amounts)
    assert [(place.slr, place.registered) for place in places] == [(0, False), (0, True)]
    assert [part.kernel.port_registers for part in registered(parts, U200)] == [True, True]
