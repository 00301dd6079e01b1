# SPDX-License-Identifier: Apache-2.0
"""The dies of a core that is laid out over several (hls/rf/dies.py), as a Tcl script that Vivado runs before opt_design.

Sources: USER_SLR_ASSIGNMENT, a guideline for the placer (UG912) that counts on hierarchical cells (UG949, "Using Soft SLR
Floorplan Constraints"); `prop=run.impl_1...` under [vivado] (UG1393 2022.2, "Using the -vivado and -advanced Options") and
STEPS.OPT_DESIGN.TCL.PRE, a hook whose path is relative to Vivado's run, so that it is absolute here (UG835, "Using Tcl.pre and
Tcl.post Hook Scripts"). v++ places a unit that has no slr= over several dies (UG1393 2023.2, "Assigning Compute Units to SLRs
on Alveo Accelerator Cards"). No tool of the vendor has run these scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypersonic.firmware.toolchains.toolchain import KernelUnits
from hypersonic.firmware.xclbin.connectivity import UnitPlacement

SCRIPT = "dies.tcl"

_HEAD = """\
# The stages of cores that are larger than a die, on their dies: written by hypersonic, do not edit.
proc on_die {slr unit cell} {
  set found [get_cells -quiet -hierarchical -filter "NAME =~ */$unit/*u_core/$cell"]
  if {[llength $found] == 0} {
    puts "WARNING: cell $cell of compute unit $unit was not found; it gets no SLR"
    return
  }
  set_property USER_SLR_ASSIGNMENT SLR$slr $found
}
"""


def dies_tcl(kernels: Sequence[KernelUnits]) -> str:
    """The text of the script; "" if no core is laid out over several dies."""
    lines = [
        f"on_die {die} {unit.name} {cell}"
        for part in kernels
        for unit in part.kernel.units(part.compute_units).instances
        for cell, die in part.kernel.core.cell_dies
    ]
    return _HEAD + "\n".join(lines) + "\n" if lines else ""


def hook_lines(script: Path) -> str:
    """The lines of v++'s configuration that run the script."""
    return f"\n[vivado]\nprop=run.impl_1.STEPS.OPT_DESIGN.TCL.PRE={script.resolve()}\n"


def without_slr(places: Sequence[UnitPlacement], kernels: Sequence[KernelUnits]) -> tuple[UnitPlacement, ...]:
    """The places, without a die for units whose cores are laid out over several."""
    laid = {
        unit.name for part in kernels if part.kernel.core.cell_dies for unit in part.kernel.units(part.compute_units).instances
    }
    return tuple(replace(place, slr=None) if place.unit in laid else place for place in places)
