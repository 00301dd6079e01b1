# SPDX-License-Identifier: Apache-2.0
"""The dies of a core over several, as Vivado and v++ are told them: the script run by tclsh against commands that record."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.toolchains.toolchain import CardOptions, KernelUnits
from hypersonic.firmware.toolchains.vitis.dies import dies_tcl
from hypersonic.firmware.toolchains.vitis.tools import Tools
from tests.firmware.toolchains.conftest import U250, Vendor, build_bitstream
from tests.support.optional import require

CELLS = (("u_first", 0), ("u_x_leaves_die0", 0), ("u_x_enters_die1", 1), ("u_second", 1))

#: a design in which u_x_enters_die1 is missing
COMMANDS = """
proc get_cells {args} {
  set pattern [lindex [lindex $args end] 2]
  if {[string match *u_x_enters_die1 $pattern]} { return {} }
  return $pattern
}
proc set_property {name value cells} { puts "$name $value $cells" }
"""


def laid_out(kernel: Kernel) -> Kernel:
    return replace(kernel, core=replace(kernel.core, cell_dies=CELLS))


def test_every_instance_is_assigned_to_its_slr_and_one_that_is_missing_is_said(kernel: Kernel, tmp_path: Path) -> None:
    script = dies_tcl([KernelUnits(laid_out(kernel), 1)])
    (tmp_path / "run.tcl").write_text(COMMANDS + script)
    output = subprocess.run(
        [require("tclsh", "tcl"), "run.tcl"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    unit = f"{kernel.name}_1"
    assert output.splitlines() == [
        f"USER_SLR_ASSIGNMENT SLR0 */{unit}/*u_core/u_first",
        f"USER_SLR_ASSIGNMENT SLR0 */{unit}/*u_core/u_x_leaves_die0",
        f"WARNING: cell u_x_enters_die1 of compute unit {unit} was not found; it gets no SLR",
        f"USER_SLR_ASSIGNMENT SLR1 */{unit}/*u_core/u_second",
    ]


def test_v_plus_plus_runs_the_script_and_does_not_place_such_a_unit_on_one_die(
    kernel: Kernel, vendor: Vendor, tools: Tools, tmp_path: Path
) -> None:
    vendor.link_as(kernel.name, U250, 1)
    built = [
        build_bitstream(KernelUnits(part, 1), tools, tmp_path / "build", CardOptions(needed_bytes=0)).build
        for part in (kernel, laid_out(kernel))
    ]
    one, two = ((build / "link.cfg").read_text() for build in built)
    assert "slr=" in one
    assert "[vivado]" not in one
    assert not (built[0] / "dies.tcl").exists()
    assert "slr=" not in two
    assert two.endswith(f"[vivado]\nprop=run.impl_1.STEPS.OPT_DESIGN.TCL.PRE={built[1] / 'dies.tcl'}\n")
    assert (built[1] / "dies.tcl").read_text() == dies_tcl([KernelUnits(laid_out(kernel), 1)])
