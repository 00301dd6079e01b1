# SPDX-License-Identifier: Apache-2.0
"""A design as a directory of the AWS FPGA development kit, from which aws_build_dcp_from_cl.py builds a checkpoint.

::

    <build>/cl_hypersonic/                          $CL_DIR; its name is the value of --cl
        design/*.v *.sv *.svh                       this project's RTL, and cl_hypersonic.sv, the top module for the shell
        design/cl_id_defines.vh                     the PCI ids, which the kit's script writes into AWS' manifest
        build/scripts/synth_cl_hypersonic.tcl       synthesis, between the kit's header and footer
        build/scripts/*.py *.tcl                    links to the kit's own scripts
        build/constraints/*.xdc                     empty: the only clock is the shell's

cl_hypersonic.sv includes the kit's port list (cl_ports.vh) and its sh_ddr tie-off (unused_ddr_template.inc) by name. Neither
file is part of this project, so that module is only checked against a list of the port names that it uses.
Source: the kit's CL_TEMPLATE, cl_ports.vh, encrypt.tcl (which reads `design/*.{v,sv,vh,svh,inc}`) and build_all.tcl.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from hypersonic.firmware.f2.design import PORTS, TOP, F2Design
from hypersonic.firmware.toolchains.f2.kit import SCRIPTS, SHELL_MODE, Kit
from hypersonic.firmware.toolchains.steps import write_whole

#: the custom logic's module, and its directory
CL = "cl_hypersonic"

#: vendor 0x1D0F is Amazon, which leaves the device ids 0xF000 to 0xF0FF to its users; host/f2/bar.py looks for these ids
PCI_IDS = {"CL_SH_ID0": "32'hF010_1D0F", "CL_SH_ID1": "32'h1D51_FEDC"}

_LICENCE = "SPDX-License-Identifier: Apache-2.0"
_CONSTRAINTS = ("cl_synth_user.xdc", "cl_timing_user.xdc", f"{SHELL_MODE}_cl_pnr_user.xdc")


def write_cl(design: F2Design, kit: Kit, build: Path) -> list[str]:
    """Write build/cl_hypersonic, replacing an earlier one. Returns the files that determine the result, relative to `build`."""
    place = build / CL
    for folder in ("design", "build/scripts", "build/constraints"):
        shutil.rmtree(place / folder, ignore_errors=True)
        (place / folder).mkdir(parents=True)
    memories = design.memories
    for source in (*design.sources, *memories):
        shutil.copy(source, place / "design" / source.name)
    texts = {
        f"design/{CL}.sv": wrapper_text(), "design/cl_id_defines.vh": id_defines_text(),
        f"build/scripts/synth_{CL}.tcl": synthesis_tcl(
            [source.name for source in design.sources], [memory.name for memory in memories]
        ),
        **{f"build/constraints/{name}": f"# {_LICENCE}\n# None: the shell's clock is the only one.\n" for name in _CONSTRAINTS},
    }  # fmt: skip
    for name, text in texts.items():
        write_whole(place / name, text)
    for name in SCRIPTS:
        (place / "build/scripts" / name).symlink_to(kit.shell / "build/scripts" / name)
    sources = sorted(f"{CL}/design/{source.name}" for source in (*design.sources, *memories))
    return [*sources, *(f"{CL}/{name}" for name in texts)]


def id_defines_text() -> str:
    """The text of cl_id_defines.vh as the kit's script reads it: one define on each line, the ids as 32'hDEVICE_VENDOR."""
    lines = [f"`define {name} {value}" for name, value in PCI_IDS.items()]
    return "\n".join([f"// {_LICENCE}", "`ifndef CL_ID_DEFINES", "`define CL_ID_DEFINES", *lines, "`endif", ""])


def synthesis_tcl(sources: Sequence[str], memories: Sequence[str] = ()) -> str:
    """The text of synth_cl_hypersonic.tcl, which the kit's build_all.tcl sources with HDK_SHELL_DIR, src_post_enc_dir, CL and
    DEVICE_TYPE set.

    Args:
        sources: file names, packages first.
        memories: names of the files for $readmemh, which encrypt.tcl leaves in design/.
    """
    names = [name for name in sources if not name.endswith(".svh")] + [f"{CL}.sv"]
    listing = " \\\n".join(f"  ${{src_post_enc_dir}}/{name}" for name in names)
    return f"""# {_LICENCE}
# Synthesis of {CL}: written by hypersonic, do not edit.
source ${{HDK_SHELL_DIR}}/build/scripts/synth_cl_header.tcl

read_verilog -sv [list \\
{listing}
]
{_read_memories(memories)}\
set_property include_dirs [list ${{src_post_enc_dir}} ${{HDK_SHELL_DESIGN_DIR}}/interfaces] [current_fileset]

read_xdc [list ${{constraints_dir}}/cl_synth_user.xdc ${{constraints_dir}}/cl_timing_user.xdc]
set_property PROCESSING_ORDER LATE [get_files cl_synth_user.xdc]
set_property PROCESSING_ORDER LATE [get_files cl_timing_user.xdc]

update_compile_order -fileset sources_1
synth_design -mode out_of_context -top ${{CL}} -verilog_define XSDB_SLV_DIS -part ${{DEVICE_TYPE}} -keep_equivalent_registers
report_utilization -hierarchical -file ${{reports_dir}}/${{CL}}.${{TAG}}.post_synth_utilization.rpt

source ${{HDK_SHELL_DIR}}/build/scripts/synth_cl_footer.tcl
"""


def _read_memories(memories: Sequence[str]) -> str:
    """The Tcl that reads the memory files. It makes Vivado's warning for a file that is not found an error, because Vivado
    would use zeros in its place."""
    listing = " \\\n".join(f"  $::env(CL_DIR)/design/{name}" for name in memories)
    error = "set_msg_config -id {Synth 8-4445} -new_severity ERROR\n"
    return f"{error}read_mem [list \\\n{listing}\n]\n" if memories else ""


#: output ports of cl_ports.vh that this logic drives to zero; the host cannot use PCIS and SDA
_ZERO = (
    "cl_sh_status0", "cl_sh_status1", "cl_sh_status2", "cl_sh_status_vled", "cl_sh_dma_wr_full", "cl_sh_dma_rd_full",
    "cl_sh_pcim_awcache", "cl_sh_pcim_awlock", "cl_sh_pcim_awprot", "cl_sh_pcim_awqos", "cl_sh_pcim_awuser",
    "cl_sh_pcim_wid", "cl_sh_pcim_wuser",
    "cl_sh_pcim_arcache", "cl_sh_pcim_arlock", "cl_sh_pcim_arprot", "cl_sh_pcim_arqos", "cl_sh_pcim_aruser",
    "cl_sh_dma_pcis_awready", "cl_sh_dma_pcis_wready", "cl_sh_dma_pcis_bid", "cl_sh_dma_pcis_bresp", "cl_sh_dma_pcis_bvalid",
    "cl_sh_dma_pcis_arready", "cl_sh_dma_pcis_rid", "cl_sh_dma_pcis_rdata", "cl_sh_dma_pcis_rresp", "cl_sh_dma_pcis_rlast",
    "cl_sh_dma_pcis_ruser", "cl_sh_dma_pcis_rvalid",
    "cl_sda_awready", "cl_sda_wready", "cl_sda_bresp", "cl_sda_bvalid", "cl_sda_arready", "cl_sda_rdata", "cl_sda_rresp",
    "cl_sda_rvalid", "tdo",
    *(f"hbm_apb_{name}_{stack}" for stack in (0, 1)
      for name in ("paddr", "pprot", "psel", "penable", "pwrite", "pwdata", "pstrb", "pready", "prdata", "pslverr")),
    "PCIE_EP_TXP", "PCIE_EP_TXN", "PCIE_RP_PERSTN", "PCIE_RP_TXP", "PCIE_RP_TXN",
)  # fmt: skip


def connections() -> dict[str, str]:
    """Port of hypersonic_f2 -> port of cl_ports.vh, whose names give the direction: `cl_sh_` is from custom logic to shell."""
    names = {
        "clk": "clk_main_a0",
        "rst_n": "rst_main_n_sync",
        "irq_req": "cl_sh_apppf_irq_req",
        "irq_ack": "sh_cl_apppf_irq_ack",
    }
    for bus, outward, inward in (("ocl", "cl_ocl", "ocl_cl"), ("pcim", "cl_sh_pcim", "sh_cl_pcim")):
        for signal, is_output in _signals(bus):
            names[f"{bus}_{signal}"] = f"{outward if is_output else inward}_{signal}"
    return names


def _signals(bus: str) -> list[tuple[str, bool]]:
    return [(name.removeprefix(f"{bus}_"), way == "output") for way, name, _ in PORTS if name.startswith(f"{bus}_")]


def wrapper_text() -> str:
    """The text of cl_hypersonic.sv: hypersonic_f2 with the kit's port list, and constants on all other outputs."""
    joined = ",\n".join(f"      .{port}({signal})" for port, signal in connections().items())
    zero = "\n".join(f"  assign {name} = '0;" for name in _ZERO)
    return f"""// {_LICENCE}
// The custom logic as the AWS F2 shell sees it: written by hypersonic, do not edit.

module {CL} #(
    parameter EN_DDR = 0,
    parameter EN_HBM = 0
) (
    `include "cl_ports.vh"
);

`include "cl_id_defines.vh"

  // the name that unused_ddr_template.inc expects
  logic rst_main_n_sync;
  always_ff @(posedge clk_main_a0) rst_main_n_sync <= rst_main_n;

  {TOP} u_{TOP} (
{joined}
  );

`include "unused_ddr_template.inc"

  assign cl_sh_flr_done = 1'b1;
  assign cl_sh_id0 = `CL_SH_ID0;
  assign cl_sh_id1 = `CL_SH_ID1;
{zero}

endmodule
"""
