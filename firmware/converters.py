# SPDX-License-Identifier: Apache-2.0
"""What a kernel's top has between shell and core: a converter for each tensor, and a register that cuts the path to the core.

    one tensor   shell -> x_row -> axis_wire_to_fixed -> x_raw -> axis_skid -> x -> core -> y -> axis_skid -> y_raw -> ...

    several                     +-> axis_wire_to_fixed -+
              x_row -> axis_broadcast                axis_join -> x_raw      ... and the same from y_raw to y_row
                                +-> axis_wire_to_fixed -+

Rows are tensors one behind another, in memory's datatypes (x_row, y_row) or as raw integers (hls/row.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypersonic.firmware.verilog import instance, part, stream_ports, stream_wires, vector
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

#: the modules' names, and those that only several tensors need
TO_FIXED, TO_WIRE = "axis_wire_to_fixed", "axis_fixed_to_wire"
SEVERAL = ("axis_broadcast", "axis_join")

#: fixed_round's numbers for the modes: their places in the enumerations
_ROUNDING = {mode: number for number, mode in enumerate(Rounding)}
_OVERFLOW = {mode: number for number, mode in enumerate(Overflow)}

#: of axis_fixed_to_wire for floating point; raw integers take less
_FLOAT_CLOCKS = 5

_CLOCK = [("clk", "ap_clk"), ("rst_n", "rst_n")]


class _Stream(NamedTuple):
    """A stream of rows. bits: of each tensor in a beat."""

    name: str
    bits: tuple[int, ...]

    def data(self, tensor: int) -> str:
        """One tensor of a beat."""
        return part(f"{self.name}_tdata", sum(self.bits[:tensor]), self.bits[tensor], sum(self.bits))

    def wires(self) -> str:
        return stream_wires(self.name, sum(self.bits))


def input_text(row: Row) -> str:
    """The wires x_row, x_raw and x, and what is between them."""
    rows, raw, x = _rows("x_row", row), _raw("x_raw", row), _raw("x", row)
    parameters = [converter_parameters(tensor, tensor.fixed) for tensor in row.tensors]
    wires = [stream.wires() for stream in (rows, raw, x)]
    return "\n\n".join([*wires, *_convert(TO_FIXED, rows, raw, parameters), _skid(raw, x)])


def output_text(row: Row) -> str:
    """The wires y, y_raw and y_row, and what is between them."""
    y, raw, rows = _raw("y", row), _raw("y_raw", row), _rows("y_row", row)
    floating = FixedPoint(1, 1)  # has nothing to round to
    parameters = [
        converter_parameters(tensor, tensor.integer if tensor.element.is_integer else floating) for tensor in row.tensors
    ]
    if len({tensor.element.is_integer for tensor in row.tensors}) > 1:  # all as slow as the slowest: a row every clock
        parameters = [{**values, "LATENCY": str(_FLOAT_CLOCKS)} for values in parameters]
    wires = [stream.wires() for stream in (y, raw, rows)]
    return "\n\n".join([*wires, _skid(y, raw), *_convert(TO_WIRE, raw, rows, parameters)])


def converter_parameters(tensor: TensorSpec, rounded_to: FixedPoint) -> dict[str, str]:
    """Of a tensor's converter, as Verilog literals. rounded_to: the type whose rounding and overflow it applies."""
    element, fixed = tensor.element, tensor.fixed
    return {
        "N": str(tensor.size),
        "WORD_WIDTH": str(element.bits),
        "EXPONENT_BITS": str(element.exponent_bits),
        "WORD_FRACTION": str(tensor.integer.fraction if element.is_integer else 0),
        "WORD_SIGNED": f"1'b{int(element.signed)}",
        "WIDTH": str(fixed.width),
        "FRACTION": str(fixed.fraction),
        "SIGNED": f"1'b{int(fixed.signed)}",
        "ROUNDING": str(_ROUNDING[rounded_to.rounding]),
        "OVERFLOW": str(_OVERFLOW[rounded_to.overflow]),
        "SCALES": _scales(tensor),
    }


def _scales(tensor: TensorSpec) -> str:
    """One 16-bit two's complement number an element, element 0 in the low bits."""
    words = [exponent & 0xFFFF for exponent in tensor.exponents.tolist()]
    return f"{16 * tensor.size}'h" + "".join(f"{word:04x}" for word in reversed(words))


def _rows(name: str, row: Row) -> _Stream:
    return _Stream(name, tuple(8 * tensor.row_bytes for tensor in row.tensors))


def _raw(name: str, row: Row) -> _Stream:
    return _Stream(name, tuple(tensor.size * tensor.fixed.width for tensor in row.tensors))


def _skid(source: _Stream, target: _Stream) -> str:
    ends = (("s_axis", source.name), ("m_axis", target.name))
    handshakes = [(f"{port}_{signal}", f"{name}_{signal}") for port, name in ends for signal in ("tvalid", "tready")]
    data = [(f"{port}_tdata", f"{{{name}_tlast, {name}_tdata}}") for port, name in ends]
    width = {"WIDTH": str(sum(source.bits) + 1)}
    return instance("axis_skid", f"u_axis_skid_{source.name[0]}", width, [*_CLOCK, *handshakes, *data])


def _convert(module: str, source: _Stream, target: _Stream, parameters: list[dict[str, str]]) -> Iterator[str]:
    """parameters: of each tensor's converter."""
    if len(parameters) == 1:
        ends = [*stream_ports("s_axis", source.name), *stream_ports("m_axis", target.name)]
        yield instance(module, f"u_{module}", parameters[0], [*_CLOCK, *ends])
        return
    side, count = source.name[0], {"N": str(len(parameters))}
    taken, made = f"{source.name}_each", f"{target.name}_each"  # bit i: of tensor i
    each = (f"{taken}_tvalid", f"{taken}_tready", f"{made}_tvalid", f"{made}_tready", f"{made}_tlast")
    yield "\n".join(f"  wire {vector(len(parameters))}{name};" for name in each)
    ends = [*_handshake("s_axis", source.name), *_handshake("m_axis", taken)]
    yield instance("axis_broadcast", f"u_axis_broadcast_{side}", count, [*_CLOCK, *ends])
    for i, values in enumerate(parameters):
        ends = [
            *_handshake("s_axis", taken, f"[{i}]"), ("s_axis_tdata", source.data(i)), ("s_axis_tlast", f"{source.name}_tlast"),
            *_handshake("m_axis", made, f"[{i}]"), ("m_axis_tdata", target.data(i)), ("m_axis_tlast", f"{made}_tlast[{i}]"),
        ]  # fmt: skip
        yield instance(module, f"u_{module}_{i}", values, [*_CLOCK, *ends])
    ends = [*_handshake("s_axis", made), *_handshake("m_axis", target.name)]
    yield instance("axis_join", f"u_axis_join_{side}", count, ends)
    yield f"  assign {target.name}_tlast = &{made}_tlast;  // the row's, in each of them"


def _handshake(port: str, name: str, bit: str = "") -> list[tuple[str, str]]:
    return [(f"{port}_{signal}", f"{name}_{signal}{bit}") for signal in ("tvalid", "tready")]
