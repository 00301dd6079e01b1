# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core: the list of its RTL files, and its generated top module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.converters import SEVERAL, beats_literal, input_text, memory_stream, output_text
from hypersonic.firmware.kernel.files import NO_RUN_DONE, PORTS, RTL, RUN_DONE, Kernel, KernelError, rtl_sources
from hypersonic.firmware.kernel.parts import FROM_CODES, TO_FIXED, TO_WIRE, grouped_beats, parts
from hypersonic.firmware.kernel.slices import with_port_registers
from hypersonic.firmware.verilog import instance, stream_ports, vector
from hypersonic.hls.cache import cached
from hypersonic.hls.core import AXIS_RTL, RF_RTL, Core, Port
from hypersonic.hls.names import KEYWORDS
from hypersonic.hls.packing.codes import converters
from hypersonic.hls.row import Row
from hypersonic.hls.sources import source_files
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.weight_stream import WEIGHT_BITS

#: the largest shift (fraction bits plus scale exponent) of a converter, in either direction
MAX_SHIFT = 400

#: bytes of the longest row: a row count has 32 bits, and the shell's count of the bytes of a run has at most 56
MAX_ROW_BYTES = (1 << 24) - 1

#: bits of that byte count, for rows up to 65 535 bytes and for longer ones
_BYTES_WIDTHS = (48, 56)


def write_kernel(core: Core, directory: Path, *, port_registers: bool = False) -> Kernel:
    """Write directory/<name>.v, the top module around `core`, and return the kernel with the list of its files.

    Args:
        port_registers: as in Kernel.

    Raises:
        KernelError: For a name that Verilog reserves or the kernel uses, and for tensors that the kernel cannot convert.
    """
    _check(core)
    directory.mkdir(parents=True, exist_ok=True)
    top = directory / f"{core.name}.v"
    top.write_text(_text(core, port_registers))
    return _kernel(core, top, port_registers)


def keep_kernel(core: Core, *, port_registers: bool = False) -> Kernel:
    """Like write_kernel, with the top module in the cache, so that all steps of a build, and later builds, share one file.
    Raises KernelError."""
    _check(core)
    name, text = f"{core.name}.v", _text(core, port_registers)

    def write(directory: Path) -> None:
        (directory / name).write_text(text)

    return _kernel(core, cached("kernel", [name, text], write) / name, port_registers)


def _text(core: Core, port_registers: bool) -> str:
    return with_port_registers(top_text(core)) if port_registers else top_text(core)


def _check(core: Core) -> None:
    _check_name(core)
    for port in (core.x, core.y):
        _check_port(port)
    if core.y.lanes and len(core.outputs.tensors) > 1:
        raise KernelError(f"core {core.name}: {len(core.outputs.tensors)} outputs in several beats each, expected one output")


def _kernel(core: Core, top: Path, port_registers: bool) -> Kernel:
    sources = _unique([*_own_sources(core), *core.sources, top])
    return Kernel(core.name, core.name, sources, tuple(source_files(RTL, "*.vlt")), core, port_registers)


def _own_sources(core: Core) -> list[Path]:
    modules = ["kernel_shell", TO_FIXED, TO_WIRE]
    if max(len(parts(port)) for port in (core.x, core.y)) > 1:
        modules += SEVERAL
    if any(one.module == FROM_CODES for one in parts(core.x)):
        modules.append(FROM_CODES)
    lanes = [RF_RTL / "rf_lanes.sv"] if grouped_beats(core.x) > 1 else []
    return [*lanes, *(source for module in modules for source in rtl_sources(module))]


def _unique(files: Iterable[Path]) -> tuple[Path, ...]:
    """The files without repetitions, each at its first place: several lists may name a shared module."""
    return tuple(dict.fromkeys(file.resolve() for file in files))


def _check_name(core: Core) -> None:
    taken = {file.stem for folder in (RTL, AXIS_RTL, RF_RTL) for file in source_files(folder, "*.sv*")} | {core.top}
    if core.name in KEYWORDS or core.name in taken:
        raise KernelError(f"kernel name is {core.name!r}, which Verilog or the kernel uses itself; give the model another name")


def _check_port(port: Port) -> None:
    if port.row.row_bytes > MAX_ROW_BYTES:
        names = ", ".join(repr(tensor.name) for tensor in port.row.tensors)
        raise KernelError(f"tensor {names}: a row is {port.row.row_bytes} bytes, expected at most {MAX_ROW_BYTES}")
    for tensor, lanes in zip(port.row.tensors, port.lanes or [tensor.size for tensor in port.row.tensors], strict=True):
        if tensor.packing:
            _check_packed_shifts(tensor)
        else:
            _check_shifts(tensor)
        if not tensor.element.is_integer:
            _check_repeats(tensor, lanes)


def _check_packed_shifts(spec: TensorSpec) -> None:
    for codes in converters(spec.packing, spec.scale_exponents) if spec.packing else ():
        if codes.is_number and abs(shift := spec.fixed.fraction - codes.fraction) > MAX_SHIFT:
            raise KernelError(
                f"tensor {spec.name!r}, field {codes.field.name!r}: {spec.fixed.fraction} fraction bits and {codes.fraction} "
                f"of the field make a shift of {shift}, expected -{MAX_SHIFT} to {MAX_SHIFT}"
            )


def _check_shifts(spec: TensorSpec) -> None:
    moved = [0] if spec.element.is_integer else spec.exponents.tolist()
    base = spec.fixed.fraction - (spec.integer.fraction if spec.element.is_integer else 0)
    for element, exponent in enumerate(moved):
        if abs(shift := base + exponent) > MAX_SHIFT:
            raise KernelError(
                f"tensor {spec.name!r}, element {element}: {base} fraction bits and scale exponent {exponent} "
                f"make a shift of {shift}, expected -{MAX_SHIFT} to {MAX_SHIFT}"
            )


def _check_repeats(spec: TensorSpec, lanes: int) -> None:
    """Raise KernelError unless all beats of a tensor have the same scales: one converter with constant shifts converts them
    all."""
    exponents = spec.exponents.reshape(-1, lanes)
    differs = (exponents != exponents[0]).ravel().nonzero()[0]
    if differs.size:
        element = int(differs[0])
        raise KernelError(
            f"tensor {spec.name!r}, element {element}: scale exponent is {exponents.flat[element]}, expected "
            f"{exponents.flat[element % lanes]} as for element {element % lanes}: a beat has {lanes} elements, and all "
            f"beats share their scales; let the scales repeat every {lanes} elements, or move them into the network"
        )


_INNER = {"ap_clk": "clk", "ap_rst_n": "rst_n", "interrupt": "irq"}


def _ports() -> str:
    return ",\n".join(f"    {direction:<6} wire {vector(bits)}{name}" for direction, name, bits in PORTS)


def _tensors(letter: str, row: Row) -> str:
    return "\n".join(f"// {letter}: {tensor.name!a}, {_on_the_wire(tensor)}, {tensor.fixed} inside" for tensor in row.tensors)


def _on_the_wire(tensor: TensorSpec) -> str:
    return f"{tensor.size} from {tensor.row_bytes} bytes" if tensor.packing else f"{tensor.size} x {tensor.datatype}"


def _shell(core: Core) -> str:
    parameters = {
        "ROW_IN_BYTES": str(core.inputs.row_bytes), "ROW_OUT_BYTES": str(core.outputs.row_bytes),
        "MAX_RUNS": str(registers.MAX_RUNS), **_large_rows(core), **_pieces(core), **_weights(core),
    }  # fmt: skip
    outer = [(_INNER.get(name, name), "shell_rst_n" if name == "ap_rst_n" else name) for _, name, _ in PORTS]
    streams = [
        *stream_ports("m_axis_x", memory_stream(core.x)),
        *stream_ports("s_axis_y", "y_row"),
    ]
    results = [("results_valid", "y_tvalid"), ("results_ready", "y_tready"), (RUN_DONE, NO_RUN_DONE)]
    return instance("kernel_shell", "u_kernel_shell", parameters, [*outer, *streams, *_weight_ports(core), *results])


def _large_rows(core: Core) -> dict[str, str]:
    """The parameter of kernel_shell for rows so long that its byte counts must be wider."""
    small, large = _BYTES_WIDTHS
    row_bytes = max(core.inputs.row_bytes, core.outputs.row_bytes)
    return {"BYTES_WIDTH": str(large)} if row_bytes >> (small - 32) else {}


def _pieces(core: Core) -> dict[str, str]:
    """The parameters of kernel_shell for rows of several beats."""
    parameters = dict[str, str]()
    if core.x.lanes:
        taken, together = parts(core.x), grouped_beats(core.x)
        sizes = [together * one.bits // 8 for one in taken]
        parameters["X_BYTES"] = str(max(sizes))
        parameters["X_TENSORS"] = str(len(taken))
        parameters["X_PIECE_BYTES"] = beats_literal(sizes)
        parameters["X_PIECES"] = beats_literal([one.beats // together for one in taken])
    if core.y.lanes:
        parameters["Y_BYTES"] = str(parts(core.y)[0].bits // 8)
    return parameters


def _weights(core: Core) -> dict[str, str]:
    """The parameters of kernel_shell for a core that reads weights from memory."""
    if not core.takes_weights:
        return {}
    repeats = "".join(str(int(stream.repeats)) for stream in reversed(core.weight_streams))
    return {
        "WEIGHTS_BEATS": str(core.weight_beats), "WEIGHT_STREAMS": str(len(core.weight_streams)),
        "WEIGHT_FIRST": beats_literal([stream.first for stream in core.weight_streams]),
        "WEIGHT_BEATS": beats_literal([stream.beats for stream in core.weight_streams]),
        "WEIGHT_REPEATS": f"{len(repeats)}'b{repeats}",
    }  # fmt: skip


def _resets(core: Core) -> str:
    """The registers of the reset: one behind the port, and one for each part of the kernel, a clock later.

    All parts leave the reset in the same clock. A core with weights has the shell's register, which is also set when the
    weights change. The attribute keeps the tools from merging the registers, Vivado that of a register and Yosys that of its
    process; they may still copy each of them.
    """
    parts = ["shell_rst_n", "rst_n", *([] if core.takes_weights else ["core_rst_n"])]
    declared = "\n".join(f'  (* keep = "true" *) reg {part};' for part in parts)
    assigned = "\n".join(f"    {part} <= reset_n_q;" for part in parts)
    from_shell = "  wire core_rst_n;" if core.takes_weights else "  wire unused_core_rst_n;"
    return f"""  // The reset: a register behind the port, and behind it one for the shell, the converters and the core each.
  reg reset_n_q;
{declared}
  always @(posedge ap_clk) reset_n_q <= ap_rst_n;
  (* keep *)
  always @(posedge ap_clk) begin
{assigned}
  end
{from_shell}"""


def _weight_wires(core: Core) -> str:
    """The wires of the core's weights; for a core without weights they are named as unused."""
    streams = len(core.weight_streams)
    data = vector(streams * WEIGHT_BITS) if streams else ""
    name = "w" if streams else "unused_w"
    ready = f"  wire {vector(streams)}w_tready;\n" if streams else ""
    return f"  wire {vector(streams)}{name}_tvalid;\n{ready}  wire {data}{name}_tdata;"


def _weight_ports(core: Core) -> list[tuple[str, str]]:
    wires = ("w_tvalid", "w_tready", "w_tdata") if core.takes_weights else ("unused_w_tvalid", "1'b0", "unused_w_tdata")
    ports = ("m_axis_w_tvalid", "m_axis_w_tready", "m_axis_w_tdata")
    reset = "core_rst_n" if core.takes_weights else "unused_core_rst_n"
    return [("core_rst_n", reset), *zip(ports, wires, strict=True)]


def _core(core: Core) -> str:
    wires = {"clk": "ap_clk", "rst_n": "core_rst_n"}
    names = sorted((signal.name for signal in core.signals), key=lambda name: name.startswith("s_axis_w"))
    return instance(
        core.top, "u_core", {}, [(n, wires.get(n, n.removeprefix("s_axis_").removeprefix("m_axis_"))) for n in names]
    )


def top_text(core: Core) -> str:
    """The text of the top module: plain Verilog ports, as the IP packager requires, and inside shell and core, connected by two
    streams of rows with a converter for each tensor."""
    return f"""// SPDX-License-Identifier: Apache-2.0
// Kernel {core.name}: written by hypersonic, do not edit.
{_tensors("x", core.inputs)}
{_tensors("y", core.outputs)}
`default_nettype none

module {core.name} (
{_ports()}
);

{_resets(core)}

{input_text(core.x)}

{output_text(core.y)}

{_weight_wires(core)}
  wire {NO_RUN_DONE};

{_shell(core)}

{_core(core)}

endmodule

`default_nettype wire
"""
