# SPDX-License-Identifier: Apache-2.0
"""The files of a kernel: the RTL modules of the shell around a core, and the list of files of a complete kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.kernel.identity import nameless
from hypersonic.firmware.kernel.vitis_xml import KernelDescription, describe_units
from hypersonic.hls.cache import content_sha256
from hypersonic.hls.core import AXIS_RTL, Core
from hypersonic.hls.sources import source_files

#: the directory of the kernel's own modules; <module>.f lists the files that a module needs, in compile order
RTL = Path(__file__).resolve().parents[1] / "rtl"

#: beats of the longest burst of a kernel, and the most bursts in flight at a port: the defaults of kernel_shell.sv
MAX_BURST_BEATS, OUTSTANDING = 64, 16

#: (direction, name, bits) of every port of a kernel, in order; direction as seen from the kernel; -1 is a vector of one bit
PORTS: tuple[tuple[str, str, int], ...] = (
    ("input", "ap_clk", 1), ("input", "ap_rst_n", 1), ("output", "interrupt", 1),
    ("input", "s_axi_control_awaddr", 12), ("input", "s_axi_control_awvalid", 1), ("output", "s_axi_control_awready", 1),
    ("input", "s_axi_control_wdata", 32), ("input", "s_axi_control_wstrb", 4), ("input", "s_axi_control_wvalid", 1),
    ("output", "s_axi_control_wready", 1), ("output", "s_axi_control_bresp", 2), ("output", "s_axi_control_bvalid", 1),
    ("input", "s_axi_control_bready", 1), ("input", "s_axi_control_araddr", 12), ("input", "s_axi_control_arvalid", 1),
    ("output", "s_axi_control_arready", 1), ("output", "s_axi_control_rdata", 32), ("output", "s_axi_control_rresp", 2),
    ("output", "s_axi_control_rvalid", 1), ("input", "s_axi_control_rready", 1),
    ("output", "m_axi_gmem0_araddr", 64), ("output", "m_axi_gmem0_arid", -1), ("output", "m_axi_gmem0_arlen", 8),
    ("output", "m_axi_gmem0_arsize", 3), ("output", "m_axi_gmem0_arburst", 2), ("output", "m_axi_gmem0_arcache", 4),
    ("output", "m_axi_gmem0_arprot", 3), ("output", "m_axi_gmem0_arvalid", 1), ("input", "m_axi_gmem0_arready", 1),
    ("input", "m_axi_gmem0_rdata", 512), ("input", "m_axi_gmem0_rid", -1), ("input", "m_axi_gmem0_rresp", 2),
    ("input", "m_axi_gmem0_rlast", 1), ("input", "m_axi_gmem0_rvalid", 1), ("output", "m_axi_gmem0_rready", 1),
    ("output", "m_axi_gmem1_awaddr", 64), ("output", "m_axi_gmem1_awid", -1), ("output", "m_axi_gmem1_awlen", 8),
    ("output", "m_axi_gmem1_awsize", 3), ("output", "m_axi_gmem1_awburst", 2), ("output", "m_axi_gmem1_awcache", 4),
    ("output", "m_axi_gmem1_awprot", 3), ("output", "m_axi_gmem1_awvalid", 1), ("input", "m_axi_gmem1_awready", 1),
    ("output", "m_axi_gmem1_wdata", 512), ("output", "m_axi_gmem1_wstrb", 64), ("output", "m_axi_gmem1_wlast", 1),
    ("output", "m_axi_gmem1_wvalid", 1), ("input", "m_axi_gmem1_wready", 1), ("input", "m_axi_gmem1_bid", -1),
    ("input", "m_axi_gmem1_bresp", 2), ("input", "m_axi_gmem1_bvalid", 1), ("output", "m_axi_gmem1_bready", 1),
)  # fmt: skip


#: an output of kernel_shell.sv, which says that a run is complete, and the wire where a kernel leaves it open
RUN_DONE, NO_RUN_DONE = "run_done", "unused_run_done"


class KernelError(FirmwareError):
    """The shell cannot hold this core. The message names the property, its value and the values allowed."""


@dataclass(frozen=True)
class Kernel:
    """A complete kernel: a core in the shell that reads and writes its rows through AXI4, with plain Verilog ports.

    Attributes:
        top: the name of the top module, which is the kernel's name.
        sources: every file, in compile order; no include path is needed.
        lint_waivers: Verilator configuration files with the accepted warnings. The core's memory files (core.memories) are part
            of the kernel too.
        port_registers: whether the channels of its AXI masters have registers (slices.py).
    """

    name: str
    top: str
    sources: tuple[Path, ...]
    lint_waivers: tuple[Path, ...]
    core: Core
    port_registers: bool = False

    @property
    def sha256(self) -> str:
        """The kernel's digest, 64 hexadecimal digits: of its RTL sources and memory files, without the names that the model has
        for its layers and tensors (identity.py).

        It is the kernel's identity without the weights that it loads at run time. Two models whose kernels have the same
        digest, target and platform compute with the same hardware. If they load weights at run time, they differ in weights.bin
        only, and one compute unit can serve both.
        """
        project = Path(__file__).resolve().parents[1], AXIS_RTL.parent
        ours = [file for file in self.sources if any(file.resolve().is_relative_to(folder) for folder in project)]
        generated = [file for file in self.sources if file not in ours]
        texts = [file.read_text() for file in generated]
        rtl = nameless(texts, [self.top, *(file.read_text() for file in ours)], self.core.memories)
        named = {file.name for file in self.core.memories if any(f'"{file.name}"' in text for text in texts)}
        rest = [file for file in self.core.memories if file.name not in named]
        return content_sha256(["kernel", self.top, *ours, *rtl, *rest])

    def units(self, compute_units: int) -> KernelDescription:
        """The kernel with that many instances."""
        units = describe_units(self.name, compute_units, self.core.takes_weights)
        return replace(units, port_registers=self.port_registers)

    @property
    def top_file(self) -> Path:
        """The top module's file, which is generated for this kernel."""
        return self.sources[-1]


def with_run_done(top: str) -> str:
    """The text of a kernel's top module (write.py) with the output RUN_DONE as a port, which Vitis kernels do not have."""
    last = f" {PORTS[-1][1]}\n);"
    joined = top.replace(f"  wire {NO_RUN_DONE};\n", "").replace(NO_RUN_DONE, RUN_DONE)
    return joined.replace(last, f" {PORTS[-1][1]},\n    output wire {RUN_DONE}\n);", 1)


def rtl_sources(module: str) -> tuple[Path, ...]:
    """The files of one of the kernel's own modules, from <module>.f. Raises KernelError for a module that does not exist."""
    listing = RTL / f"{module}.f"
    if not listing.is_file():
        known = ", ".join(sorted(file.stem for file in source_files(RTL, "*.f")))
        raise KernelError(f"module {module!r} is not part of the kernel, expected one of {known}")
    return tuple((RTL / line).resolve() for line in listing.read_text().split())
