# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core: which RTL files, and the generated top that joins them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware import registers
from hypersonic.firmware.errors import FirmwareError
from hypersonic.hls.core import Core
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.keywords import KEYWORDS
from hypersonic.hls.spec import TensorSpec

#: the kernel's own modules; beside each module lies <module>.f, the files it needs in compile order
RTL = Path(__file__).resolve().parent / "rtl"

#: the shell takes shifts (fraction bits plus scale exponent) of this size either way
MAX_SHIFT = 400

#: bytes of the longest row; row counts of 32 bits times this fit the shell's 48-bit byte counts
MAX_ROW_BYTES = (1 << 16) - 1

#: fixed_round's numbers for the modes: their places in the enumerations
_ROUNDING = {mode: number for number, mode in enumerate(Rounding)}
_OVERFLOW = {mode: number for number, mode in enumerate(Overflow)}


class KernelError(FirmwareError):
    """A core that the shell cannot carry: which number, what it is, what it may be."""


@dataclass(frozen=True)
class Kernel:
    """A complete kernel: plain Verilog ports on top, AXI4 on both sides, the core inside.

    top: the top module's name, the kernel's name. sources: every file, in compile order; no include path is needed.
    lint_waivers: Verilator configuration files that name the accepted warnings.
    """

    name: str
    top: str
    sources: tuple[Path, ...]
    lint_waivers: tuple[Path, ...]
    core: Core


def rtl_sources(module: str) -> tuple[Path, ...]:
    """The files of one of the kernel's own modules, from <module>.f. Raises KernelError for a module that is not there."""
    listing = RTL / f"{module}.f"
    if not listing.is_file():
        known = ", ".join(sorted(file.stem for file in RTL.glob("*.f")))
        raise KernelError(f"module {module!r} is not part of the kernel, expected one of {known}")
    return tuple((RTL / line).resolve() for line in listing.read_text().split())


def write_kernel(core: Core, directory: Path) -> Kernel:
    """Write directory/<name>.v, the top around `core`, and say which files make the kernel.

    Raises KernelError for a name that Verilog keeps to itself and for tensors the shell cannot convert.
    """
    _check_name(core)
    for spec in (core.input, core.output):
        _check_spec(spec)
    directory.mkdir(parents=True, exist_ok=True)
    top = directory / f"{core.name}.v"
    top.write_text(top_text(core))
    sources = _unique([*rtl_sources("kernel_shell"), *core.sources, top])
    return Kernel(core.name, core.name, sources, tuple(sorted(RTL.glob("*.vlt"))), core)


def _unique(files: Iterable[Path]) -> tuple[Path, ...]:
    """Shared modules are named by the shell and by the core: the first mention counts."""
    return tuple(dict.fromkeys(file.resolve() for file in files))


def _check_name(core: Core) -> None:
    taken = {file.stem for file in rtl_sources("kernel_shell")} | {core.top}
    if core.name in KEYWORDS or core.name in taken:
        raise KernelError(f"kernel name is {core.name!r}, which Verilog or the kernel uses itself; give the model another name")


def _check_spec(spec: TensorSpec) -> None:
    if spec.row_bytes > MAX_ROW_BYTES:
        raise KernelError(f"tensor {spec.name!r}: a row is {spec.row_bytes} bytes, expected at most {MAX_ROW_BYTES}")
    moved = [0] * spec.size if spec.element.is_integer else spec.exponents.tolist()
    base = spec.fixed.fraction - (spec.integer.fraction if spec.element.is_integer else 0)
    for element, exponent in enumerate(moved):
        if abs(shift := base + exponent) > MAX_SHIFT:
            raise KernelError(
                f"tensor {spec.name!r}, element {element}: {base} fraction bits and scale exponent {exponent} "
                f"make a shift of {shift}, expected -{MAX_SHIFT} to {MAX_SHIFT}"
            )


def shell_parameters(core: Core) -> dict[str, str]:
    """The parameters of kernel_shell for `core`, as Verilog literals."""
    return {
        **_side_parameters(core.input, core.input.fixed, "IN"),
        **_side_parameters(core.output, core.output.integer if core.output.element.is_integer else FixedPoint(1, 1), "OUT"),
        "MAX_RUNS": str(registers.MAX_RUNS),
    }


def _side_parameters(spec: TensorSpec, rounded_to: FixedPoint, side: str) -> dict[str, str]:
    """rounded_to: the type whose rounding and overflow the shell applies on that side."""
    element, fixed = spec.element, spec.fixed
    values = {
        "N": str(spec.size),
        "WORD_WIDTH": str(element.bits),
        "EXPONENT_BITS": str(element.exponent_bits),
        "WORD_FRACTION": str(spec.integer.fraction if element.is_integer else 0),
        "WORD_SIGNED": f"1'b{int(element.signed)}",
        "WIDTH": str(fixed.width),
        "FRACTION": str(fixed.fraction),
        "SIGNED": f"1'b{int(fixed.signed)}",
        "ROUNDING": str(_ROUNDING[rounded_to.rounding]),
        "OVERFLOW": str(_OVERFLOW[rounded_to.overflow]),
        "SCALES": _scales(spec),
    }
    return {f"{name}_{side}": value for name, value in values.items()}


def _scales(spec: TensorSpec) -> str:
    """One 16-bit two's complement number an element, element 0 in the low bits."""
    words = [exponent & 0xFFFF for exponent in spec.exponents.tolist()]
    return f"{16 * spec.size}'h" + "".join(f"{word:04x}" for word in reversed(words))


#: (direction, name, bits) of every port of a kernel, in order; direction as seen from the kernel
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

_INNER = {"ap_clk": "clk", "ap_rst_n": "rst_n", "interrupt": "irq"}


def _range(bits: int) -> str:
    """A Verilog range; -1 marks a vector of one bit, which AXI IDs are."""
    return "[0:0] " if bits == -1 else f"[{bits - 1}:0] " if bits > 1 else ""


def _ports() -> str:
    return ",\n".join(f"    {direction:<6} wire {_range(bits)}{name}" for direction, name, bits in PORTS)


def _connections(pairs: Iterable[tuple[str, str]]) -> str:
    return ",\n".join(f"      .{port}({signal})" for port, signal in pairs)


def _streams(core: Core) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
    """The wires between shell and core, and how either side connects to them."""
    wires, shell, inner = [], [], []
    for letter, spec, from_shell in (("x", core.input, True), ("y", core.output, False)):
        for signal, bits in (("tvalid", 1), ("tready", 1), ("tdata", spec.size * spec.fixed.width), ("tlast", 1)):
            wires.append(f"  wire {_range(bits)}{letter}_{signal};")
            shell.append((f"{'m' if from_shell else 's'}_axis_{letter}_{signal}", f"{letter}_{signal}"))
            inner.append((f"{'s' if from_shell else 'm'}_axis_{letter}_{signal}", f"{letter}_{signal}"))
    return "\n".join(wires), shell, inner


def top_text(core: Core) -> str:
    """The top module: plain Verilog ports as the IP packager wants them, the shell and the core joined by two streams."""
    wires, shell, inner = _streams(core)
    parameters = _connections(shell_parameters(core).items())
    outer = [(_INNER.get(name, name), "rst_n" if name == "ap_rst_n" else name) for _, name, _ in PORTS]
    return f"""// SPDX-License-Identifier: Apache-2.0
// Kernel {core.name}: written by hypersonic, do not edit.
// x: {core.input.size} x {core.input.datatype}, {core.input.fixed} inside
// y: {core.output.size} x {core.output.datatype}, {core.output.fixed} inside
`default_nettype none

module {core.name} (
{_ports()}
);

  // One register ahead of every reset in the kernel, so that the tools may copy it where it fans out.
  reg rst_n;
  always @(posedge ap_clk) rst_n <= ap_rst_n;

{wires}

  kernel_shell #(
{parameters}
  ) u_kernel_shell (
{_connections([*outer, *shell])}
  );

  {core.top} u_core (
{_connections([("clk", "ap_clk"), ("rst_n", "rst_n"), *inner])}
  );

endmodule

`default_nettype wire
"""
