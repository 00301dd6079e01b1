# SPDX-License-Identifier: Apache-2.0
"""A kernel as custom logic for AWS F2: the top module hypersonic_f2, which connects several instances of it to f2_shell.sv.

Its ports are OCL, PCIM and interrupts. It uses no file of the kit, and so can be simulated without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hypersonic.firmware.f2.registers import MAX_UNITS
from hypersonic.firmware.kernel.digest import kernel_digest
from hypersonic.firmware.kernel.files import PORTS as KERNEL_PORTS
from hypersonic.firmware.kernel.files import Kernel, KernelError, rtl_sources
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.cache import content_hash

#: the generated module, and its file
TOP = "hypersonic_f2"


@dataclass(frozen=True)
class F2Design:
    """Custom logic without the kit's own parts.

    top: name of the top module. sources: every file, in compile order. uuid: the identity block's UUID, 32 hexadecimal digits,
    a hash of everything that determines the logic.
    """

    kernel: Kernel
    compute_units: int
    top: str
    sources: tuple[Path, ...]
    uuid: str


def write_f2(kernel: Kernel, compute_units: int, directory: Path) -> F2Design:
    """Write directory/hypersonic_f2.sv, and return the design. Raises KernelError for a number of units that is out of range,
    and for a name that the F2 top uses itself."""
    if not 1 <= compute_units <= MAX_UNITS:
        raise KernelError(f"compute units are {compute_units}, expected 1 to {MAX_UNITS}: the F2 shell has as many interrupts")
    shell = rtl_sources("f2_shell")
    if kernel.name in {TOP, *(file.stem for file in shell)}:
        raise KernelError(f"kernel name is {kernel.name!r}, which the F2 top uses itself; give the model another name")
    inner = (*kernel.sources, *shell)
    uuid = content_hash([top_text(kernel, compute_units, "0" * 32), *inner, *kernel.core.memories])[:32]
    directory.mkdir(parents=True, exist_ok=True)
    top = directory / f"{TOP}.sv"
    top.write_text(top_text(kernel, compute_units, uuid))
    packages = [file for file in shell if file.suffix == ".svh"]
    return F2Design(kernel, compute_units, TOP, tuple(dict.fromkeys([*packages, *inner, top])), uuid)


def assemble_f2_xclbin(
    design: F2Design, target: Target, platform: Platform, image: bytes, tools: Mapping[str, str] | None = None
) -> bytes:  # fmt: skip
    """The bytes of the design's xclbin. image: the simulator, or for target hw the image's id. Raises LinkError like
    assemble_xclbin."""
    name, weights = design.kernel.name, design.kernel.core.takes_weights
    linked = assemble_xclbin(
        name, target, platform, image, compute_units=design.compute_units, tools=tools, weights=weights,
        digest=kernel_digest(design.kernel),
    )  # fmt: skip
    return replace(Xclbin.parse(linked), uuid=design.uuid).to_bytes()


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
    ("interrupt", 1, True),
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
    pairs = [("ap_clk", "clk"), ("ap_rst_n", "rst_n_q"), ("interrupt", "unit_interrupt[i]")]
    for name, _, each in _UNIT_WIRES[1:]:
        write = name.startswith(("aw", "w", "b"))
        port = f"s_axi_{name}" if name.startswith("control") else f"m_axi_gmem{int(write)}_{name}"
        pairs.append((port, f"unit_{name}{'[i]' if each else ''}"))
    pairs += [("m_axi_gmem0_rid", "1'b0"), ("m_axi_gmem1_bid", "1'b0")]
    return pairs + [(port, port) for port in _UNUSED]


def top_text(kernel: Kernel, compute_units: int, uuid: str) -> str:
    """The text of the module hypersonic_f2: f2_shell and `compute_units` instances of the kernel."""
    ports = ",\n".join(f"    {direction:<6} wire {_range(bits)}{name}" for direction, name, bits in PORTS)
    wires = "\n".join(
        f"  wire {'[UNITS-1:0]' if each else ''}{_range(bits).strip() if bits > 1 else ''} unit_{name};"
        for name, bits, each in _UNIT_WIRES
    )
    bits = {name: max(1, width) for _, name, width in KERNEL_PORTS}
    unused = "\n".join(f"    wire {_range(bits[port])}{port};" for port in _UNUSED)
    outer = [(name, "rst_n_q" if name == "rst_n" else name) for _, name, _ in PORTS]
    inner = [(f"unit_{name}", f"unit_{name}") for name, _, _ in _UNIT_WIRES]
    return f"""// SPDX-License-Identifier: Apache-2.0
// {compute_units} x kernel {kernel.name} behind the interfaces of the AWS F2 shell: written by hypersonic, do not edit.
`default_nettype none

module {TOP} (
{ports}
);

  localparam int UNITS = {compute_units};

  reg rst_n_q;
  always @(posedge clk) rst_n_q <= rst_n;

{wires}

  f2_shell #(
      .UNITS(UNITS),
      .UUID (128'h{uuid})
  ) u_f2_shell (
{_connections([*outer, *inner])}
  );

  for (genvar i = 0; i < UNITS; i++) begin : gen_unit
{unused}
    wire unused = &{{1'b0, {", ".join(_UNUSED)}}};

    {kernel.top} u_kernel (
{_connections(_kernel_connections(), 8)}
    );
  end

endmodule

`default_nettype wire
"""
