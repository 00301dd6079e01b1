# SPDX-License-Identifier: Apache-2.0
"""Kernels as custom logic for AWS F2: the top module hypersonic_f2, which connects instances of them to f2_shell.sv.

The kernels' top modules are those of other platforms with one port more, by which run_report.sv counts the runs.
Its ports are OCL, PCIM and interrupts. It uses no file of the kit, and so can be simulated without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from hypersonic.firmware.f2.registers import MAX_UNITS
from hypersonic.firmware.kernel.files import PORTS as KERNEL_PORTS
from hypersonic.firmware.kernel.files import RUN_DONE, Kernel, KernelError, rtl_sources, with_run_done
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.cache import content_hash

#: the generated module, and its file
TOP = "hypersonic_f2"


@dataclass(frozen=True)
class F2Design:
    """Custom logic without the kit's own parts.

    Attributes:
        kernels: each with its number of compute units; the units are numbered in this order.
        top: name of the top module.
        sources: every file, in compile order.
        uuid: the identity block's UUID, 32 hexadecimal digits, a hash of everything that determines the logic.
    """

    kernels: tuple[tuple[Kernel, int], ...]
    top: str
    sources: tuple[Path, ...]
    uuid: str

    @property
    def kernel(self) -> Kernel:
        """The first kernel."""
        return self.kernels[0][0]

    @property
    def name(self) -> str:
        """The names of the kernels, joined."""
        return "_".join(kernel.name for kernel, _ in self.kernels)

    @property
    def compute_units(self) -> int:
        """The number of compute units of all kernels."""
        return sum(units for _, units in self.kernels)

    @property
    def memories(self) -> tuple[Path, ...]:
        """The memory files of all kernels."""
        return tuple(memory for kernel, _ in self.kernels for memory in kernel.core.memories)

    @property
    def lint_waivers(self) -> tuple[Path, ...]:
        """The lint waivers of all kernels, each once."""
        return tuple(dict.fromkeys(waiver for kernel, _ in self.kernels for waiver in kernel.lint_waivers))


def write_f2(kernel: Kernel, compute_units: int, directory: Path) -> F2Design:
    """Like write_f2_kernels, for one kernel."""
    return write_f2_kernels([(kernel, compute_units)], directory)


def write_f2_kernels(kernels: Sequence[tuple[Kernel, int]], directory: Path) -> F2Design:
    """Write directory/hypersonic_f2.sv and directory/kernels/<kernel>.v for each kernel, and return the design.

    Args:
        kernels: each with its number of compute units.

    Raises:
        KernelError: For a number of units that is out of range, for a name that the F2 top uses itself, and for two kernels
            that have the same name or different files of one name.
    """
    total = sum(units for _, units in kernels)
    if min(units for _, units in kernels) < 1 or total > MAX_UNITS:
        listed = ", ".join(f"{kernel.name} {units}" for kernel, units in kernels)
        raise KernelError(
            f"compute units are {total} ({listed}), expected 1 to {MAX_UNITS}: the F2 shell has as many interrupts"
        )
    shell = rtl_sources("f2_shell")
    for kernel, _ in kernels:
        if kernel.name in {TOP, *(file.stem for file in shell)}:
            raise KernelError(f"kernel name is {kernel.name!r}, which the F2 top uses itself; give the model another name")
    packages = [file for file in shell if file.suffix == ".svh"]
    (directory / "kernels").mkdir(parents=True, exist_ok=True)
    inner = (*dict.fromkeys(source for kernel, _ in kernels for source in _sources(kernel, directory)), *shell)
    design = F2Design(tuple(kernels), TOP, (*inner, directory / f"{TOP}.sv"), "0" * 32)
    _check_files(design)
    uuid = content_hash([top_text(kernels, "0" * 32), *inner, *design.memories])[:32]
    top = directory / f"{TOP}.sv"
    top.write_text(top_text(kernels, uuid))
    return replace(design, sources=tuple(dict.fromkeys([*packages, *inner, top])), uuid=uuid)


def _sources(kernel: Kernel, directory: Path) -> list[Path]:
    """The kernel's files, with a top module that has the port RUN_DONE, which is written to `directory`."""
    *inner, top = kernel.sources
    written = directory / "kernels" / top.name
    written.write_text(with_run_done(top.read_text()))
    return [*inner, written]


def _check_files(design: F2Design) -> None:
    """Raises KernelError for kernels with the same name, and for two files of one name, because the kit has one directory."""
    names = [kernel.name for kernel, _ in design.kernels]
    files = [file.name for file in dict.fromkeys([*design.sources, *design.memories])]
    if twice := sorted({name for name in names if names.count(name) > 1} | {file for file in files if files.count(file) > 1}):
        raise KernelError(f"the kernels {', '.join(names)} have {', '.join(twice)} twice; give a model another name")


def assemble_f2_xclbin(
    design: F2Design, target: Target, platform: Platform, image: bytes, tools: Mapping[str, str] | None = None
) -> bytes:  # fmt: skip
    """The bytes of the design's xclbin.

    Args:
        image: the simulator of the whole card, or for target hw the image's id.

    Raises:
        LinkError: Like assemble_kernels.
    """
    linked = [LinkedKernel(kernel.name, units, kernel.core.takes_weights, kernel.sha256) for kernel, units in design.kernels]
    return replace(Xclbin.parse(assemble_kernels(linked, target, platform, image, tools=tools)), uuid=design.uuid).to_bytes()


#: (direction, name, bits) of the top's ports, in order; direction as seen from the custom logic
PORTS: tuple[tuple[str, str, int], ...] = (
    ("input", "clk", 1), ("input", "rst_n", 1),
    ("input", "ocl_awaddr", 32), ("input", "ocl_awvalid", 1), ("output", "ocl_awready", 1),
    ("input", "ocl_wdata", 32), ("input", "ocl_wstrb", 4), ("input", "ocl_wvalid", 1), ("output", "ocl_wready", 1),
    ("output", "ocl_bresp", 2), ("output", "ocl_bvalid", 1), ("input", "ocl_bready", 1),
    ("input", "ocl_araddr", 32), ("input", "ocl_arvalid", 1), ("output", "ocl_arready", 1),
    ("output", "ocl_rdata", 32), ("output", "ocl_rresp", 2), ("output", "ocl_rvalid", 1), ("input", "ocl_rready", 1),
    ("output", "pcim_awaddr", 64), ("output", "pcim_awid", 16), ("output", "pcim_awlen", 8), ("output", "pcim_awsize", 3),
    ("output", "pcim_awburst", 2), ("output", "pcim_awvalid", 1), ("input", "pcim_awready", 1),
    ("output", "pcim_wdata", 512), ("output", "pcim_wstrb", 64), ("output", "pcim_wlast", 1),
    ("output", "pcim_wvalid", 1), ("input", "pcim_wready", 1),
    ("input", "pcim_bid", 16), ("input", "pcim_bresp", 2), ("input", "pcim_bvalid", 1), ("output", "pcim_bready", 1),
    ("output", "pcim_araddr", 64), ("output", "pcim_arid", 16), ("output", "pcim_arlen", 8), ("output", "pcim_arsize", 3),
    ("output", "pcim_arburst", 2), ("output", "pcim_arvalid", 1), ("input", "pcim_arready", 1),
    ("input", "pcim_rdata", 512), ("input", "pcim_rid", 16), ("input", "pcim_rresp", 2), ("input", "pcim_rlast", 1),
    ("input", "pcim_rvalid", 1), ("output", "pcim_rready", 1),
    ("output", "irq_req", 16), ("input", "irq_ack", 16),
)  # fmt: skip

#: the wires between f2_shell and the kernels: (name, bits, whether each unit has its own)
_UNIT_WIRES: tuple[tuple[str, int, bool], ...] = (
    ("interrupt", 1, True), (RUN_DONE, 1, True),
    ("control_awaddr", 12, False), ("control_awvalid", 1, True), ("control_awready", 1, True),
    ("control_wdata", 32, False), ("control_wstrb", 4, False), ("control_wvalid", 1, True), ("control_wready", 1, True),
    ("control_bvalid", 1, True), ("control_bready", 1, True),
    ("control_araddr", 12, False), ("control_arvalid", 1, True), ("control_arready", 1, True),
    ("control_rdata", 32, True), ("control_rvalid", 1, True), ("control_rready", 1, True),
    ("araddr", 64, True), ("arlen", 8, True), ("arvalid", 1, True), ("arready", 1, True),
    ("rdata", 512, False), ("rresp", 2, False), ("rlast", 1, False), ("rvalid", 1, True), ("rready", 1, True),
    ("awaddr", 64, True), ("awlen", 8, True), ("awvalid", 1, True), ("awready", 1, True),
    ("wdata", 512, True), ("wstrb", 64, True), ("wlast", 1, True), ("wvalid", 1, True), ("wready", 1, True),
    ("bresp", 2, False), ("bvalid", 1, True), ("bready", 1, True),
)  # fmt: skip

#: outputs of a kernel that are not used: the control port's responses are always OKAY, and all bursts have the same form
_UNUSED = (
    "s_axi_control_bresp", "s_axi_control_rresp",
    *(f"m_axi_gmem0_ar{name}" for name in ("id", "size", "burst", "cache", "prot")),
    *(f"m_axi_gmem1_aw{name}" for name in ("id", "size", "burst", "cache", "prot")),
)  # fmt: skip


def _range(bits: int) -> str:
    return f"[{bits - 1}:0] " if bits > 1 else ""


def _connections(pairs: Iterable[tuple[str, str]], indent: int = 6) -> str:
    return ",\n".join(f"{' ' * indent}.{port}({signal})" for port, signal in pairs)


def _kernel_connections() -> list[tuple[str, str]]:
    """The ports of kernel i, and the wires of f2_shell that are connected to them."""
    pairs = [("ap_clk", "clk"), ("ap_rst_n", "unit_rst_n_q[i]"), ("interrupt", "unit_interrupt[i]")]
    pairs.append((RUN_DONE, f"unit_{RUN_DONE}[i]"))
    for name, _, each in _UNIT_WIRES[2:]:
        write = name.startswith(("aw", "w", "b"))
        port = f"s_axi_{name}" if name.startswith("control") else f"m_axi_gmem{int(write)}_{name}"
        pairs.append((port, f"unit_{name}{'[i]' if each else ''}"))
    pairs += [("m_axi_gmem0_rid", "1'b0"), ("m_axi_gmem1_bid", "1'b0")]
    return pairs + [(port, port) for port in _UNUSED]


def top_text(kernels: Sequence[tuple[Kernel, int]], uuid: str) -> str:
    """The text of the module hypersonic_f2: f2_shell and the instances of each kernel."""
    ports = ",\n".join(f"    {direction:<6} wire {_range(bits)}{name}" for direction, name, bits in PORTS)
    wires = "\n".join(
        f"  wire {'[UNITS-1:0]' if each else ''}{_range(bits).strip() if bits > 1 else ''} unit_{name};"
        for name, bits, each in _UNIT_WIRES
    )
    total = sum(units for _, units in kernels)
    listed = ", ".join(f"{units} x kernel {kernel.name}" for kernel, units in kernels)
    ends = list(accumulate(units for _, units in kernels))
    blocks = "\n".join(
        _units_text(kernel, end - units, end, "unit" if len(kernels) == 1 else kernel.name)
        for (kernel, units), end in zip(kernels, ends, strict=True)
    )
    outer = [(name, "shell_rst_n_q" if name == "rst_n" else name) for _, name, _ in PORTS]
    inner = [(f"unit_{name}", f"unit_{name}") for name, _, _ in _UNIT_WIRES]
    return f"""// SPDX-License-Identifier: Apache-2.0
// {listed} behind the interfaces of the AWS F2 shell: written by hypersonic, do not edit.
`default_nettype none

module {TOP} (
{ports}
);

  localparam int UNITS = {total};

  // The reset crosses the device in two clocks, and then each unit and the shell have a register of their own.
  reg [1:0] rst_n_q;
  (* dont_touch = "true" *) reg shell_rst_n_q;
  (* dont_touch = "true" *) reg [UNITS-1:0] unit_rst_n_q;
  always @(posedge clk) begin
    rst_n_q       <= {{rst_n_q[0], rst_n}};
    shell_rst_n_q <= rst_n_q[1];
    unit_rst_n_q  <= {{UNITS{{rst_n_q[1]}}}};
  end

{wires}

  f2_shell #(
      .UNITS(UNITS),
      .UUID (128'h{uuid})
  ) u_f2_shell (
{_connections([*outer, *inner])}
  );

{blocks}
endmodule

`default_nettype wire
"""


def _units_text(kernel: Kernel, first: int, end: int, label: str) -> str:
    """The Verilog of one kernel's units, from number `first` to `end` - 1."""
    bits = {name: max(1, width) for _, name, width in KERNEL_PORTS}
    unused = "\n".join(f"    wire {_range(bits[port])}{port};" for port in _UNUSED)
    limit = "UNITS" if label == "unit" else str(end)
    return f"""\
  for (genvar i = {first}; i < {limit}; i++) begin : gen_{label}
{unused}
    wire unused = &{{1'b0, {", ".join(_UNUSED)}}};

    {kernel.top} u_kernel (
{_connections(_kernel_connections(), 8)}
    );
  end
"""
