# SPDX-License-Identifier: Apache-2.0
"""Netlists: RTL that Yosys has synthesised to generic gates, flip-flops and memories, as Verilog with the same ports.

A simulation of the netlist with the inputs of the RTL's finds what synthesis understands otherwise than the simulator does. The
gates are not mapped to a part's cells: that is work of Yosys alone, and the RTL has no say in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypersonic.firmware.estimate.yosys import run_on
from hypersonic.firmware.pyosys import tool_version
from hypersonic.hls.cache import cached
from hypersonic.hls.rf.modules import packages_first

_RTL = {".sv", ".v"}  # a .svh is included by name
_NETLIST = "netlist.v"

# Modules are read with -defer: some cannot be elaborated with the defaults of their parameters. The passes up to `memory` are
# those of Yosys' own `synth`; `memory -nomap` finds each memory with its ports and its output register, and leaves it a memory.
_SCRIPT = """\
read_verilog -sv -defer {sources}
hierarchy -check -top {top}
chformal -remove
proc
flatten
opt_expr
opt_clean
check -assert
opt -nodffe -nosdff
fsm
opt
wreduce
peepopt
opt_clean
alumacc
share
opt
memory -nomap
opt -fast -full
techmap
opt -fast
splitnets
clean
check -assert
write_verilog -noattr {netlist}
"""


def netlist(top: str, sources: Sequence[Path]) -> Path:
    """Return the Verilog file with the netlist of module `top`, from the cache or made by Yosys.

    Args:
        sources: RTL in any order, and the files that its $readmemh reads, by their names without a folder.

    Raises:
        SynthesisError: For RTL that Yosys refuses, with a combinational loop or several drivers of a wire.
        MissingToolError: When Yosys is not installed.
    """
    rtl = packages_first([source for source in sources if source.suffix in _RTL])
    script = _SCRIPT.format(sources=" ".join(source.name for source in rtl), top=top, netlist=_NETLIST)

    def build(directory: Path) -> None:
        run_on({source.name: source for source in sources}, script, directory)

    return cached("netlist", [tool_version(), script, *sources], build) / _NETLIST
