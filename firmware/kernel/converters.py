# SPDX-License-Identifier: Apache-2.0
"""The part of a kernel's top between shell and core: a converter for each tensor, and a register slice before the core.

    one tensor   shell -> x_row -> axis_wire_to_fixed -> x_raw -> axis_skid -> x -> core -> y -> axis_skid -> y_raw -> ...

    several                     +-> axis_wire_to_fixed -+
              x_row -> axis_broadcast                axis_join -> x_raw      ... and the same from y_raw to y_row
                                +-> axis_wire_to_fixed -+

A row is the concatenation of its tensors, in the datatypes of memory (x_row, y_row) or as raw integers (hls/row.py). Where a
row is several beats, a converter works on one beat of its tensor at a time. With several tensors, every converter is given
every beat, and tensor_turns selects the result of the converter whose tensor the beat belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from hypersonic.firmware.verilog import instance, part, stream_ports, stream_wires, vector
from hypersonic.hls.core import Port
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint
from hypersonic.hls.spec import TensorSpec

#: the converter modules, and the modules that only a row of several tensors needs
TO_FIXED, TO_WIRE = "axis_wire_to_fixed", "axis_fixed_to_wire"
SEVERAL = ("axis_broadcast", "axis_join", "tensor_turns")


#: latency of axis_fixed_to_wire for floating point; it is shorter for raw integers
_FLOAT_CLOCKS = 5

_CLOCK = [("clk", "ap_clk"), ("rst_n", "rst_n")]


class Part(NamedTuple):
    """The part of a row that one converter converts: a tensor, or consecutive tensors whose beats have the same format.

    elements: in one beat. beats: in one row.
    """

    tensor: TensorSpec
    elements: int
    beats: int

    @property
    def bytes(self) -> int:
        """Bytes of one beat in memory."""
        return self.elements * self.tensor.element.bytes

    @property
    def raw_bits(self) -> int:
        """Bits of one beat as raw integers."""
        return self.elements * self.tensor.fixed.width


def parts(port: Port) -> tuple[Part, ...]:
    """The parts of a port's row, in its order."""
    if not port.lanes:
        return tuple(Part(tensor, tensor.size, 1) for tensor in port.row.tensors)
    each = [
        Part(tensor, lanes, beats) for tensor, lanes, beats in zip(port.row.tensors, port.lanes, port.tensor_beats, strict=True)
    ]
    alike = groupby(each, lambda one: converter_parameters(one, one.tensor.fixed))
    return tuple(same[0]._replace(beats=sum(one.beats for one in same)) for same in (list(group) for _, group in alike))


class _Stream(NamedTuple):
    """A stream of rows. bits: the bits of each part. Parts are side by side in one beat, or, if in_turns, each in the low bits
    of beats of its own."""

    name: str
    bits: tuple[int, ...]
    in_turns: bool

    @property
    def width(self) -> int:
        return max(self.bits) if self.in_turns else sum(self.bits)

    def data(self, index: int) -> str:
        """The part-select of one part in a beat."""
        return part(f"{self.name}_tdata", 0 if self.in_turns else sum(self.bits[:index]), self.bits[index], self.width)

    def wires(self) -> str:
        return stream_wires(self.name, self.width)


def input_text(port: Port) -> str:
    """The Verilog of the wires x_row, x_raw and x, and of the modules between them."""
    taken = parts(port)
    rows, raw, x = _rows("x_row", port), _raw("x_raw", port), _raw("x", port)
    parameters = [converter_parameters(one, one.tensor.fixed) for one in taken]
    wires = [stream.wires() for stream in (rows, raw, x)]
    turns = [one.beats for one in taken]
    return "\n\n".join([*wires, *_convert(TO_FIXED, (rows, raw), parameters, turns), _skid(raw, x)])


def output_text(port: Port) -> str:
    """The Verilog of the wires y, y_raw and y_row, and of the modules between them."""
    given = parts(port)
    y, raw, rows = _raw("y", port), _raw("y_raw", port), _rows("y_row", port)
    floating = FixedPoint(1, 1)  # a placeholder: the conversion to floating point uses no fixed-point type
    parameters = [converter_parameters(one, one.tensor.integer if one.tensor.element.is_integer else floating) for one in given]
    if len({one.tensor.element.is_integer for one in given}) > 1:  # with equal latencies, a row can leave every clock
        parameters = [{**values, "LATENCY": str(_FLOAT_CLOCKS)} for values in parameters]
    wires = [stream.wires() for stream in (y, raw, rows)]
    return "\n\n".join([*wires, _skid(y, raw), *_convert(TO_WIRE, (raw, rows), parameters, [1])])


def converter_parameters(taken: Part, rounded_to: FixedPoint) -> dict[str, str]:
    """The parameters of a part's converter, as Verilog literals. rounded_to: the type whose modes the converter applies."""
    element, fixed = taken.tensor.element, taken.tensor.fixed
    return {
        "N": str(taken.elements),
        "WORD_WIDTH": str(element.bits),
        "EXPONENT_BITS": str(element.exponent_bits),
        "WORD_FRACTION": str(taken.tensor.integer.fraction if element.is_integer else 0),
        "WORD_SIGNED": f"1'b{int(element.signed)}",
        "WIDTH": str(fixed.width),
        "FRACTION": str(fixed.fraction),
        "SIGNED": f"1'b{int(fixed.signed)}",
        "ROUNDING": str(ROUNDING_CODES[rounded_to.rounding]),
        "OVERFLOW": str(OVERFLOW_CODES[rounded_to.overflow]),
        "SCALES": _scales(taken),
    }


def _scales(taken: Part) -> str:
    """The scale exponents of one beat: 16-bit two's complement numbers, element 0 in the low bits. All beats have the same."""
    words = [exponent & 0xFFFF for exponent in taken.tensor.exponents[: taken.elements].tolist()]
    return f"{16 * len(words)}'h" + "".join(f"{word:04x}" for word in reversed(words))


def _rows(name: str, port: Port) -> _Stream:
    return _Stream(name, tuple(8 * one.bytes for one in parts(port)), bool(port.lanes))


def _raw(name: str, port: Port) -> _Stream:
    return _Stream(name, tuple(one.raw_bits for one in parts(port)), bool(port.lanes))


def _skid(source: _Stream, target: _Stream) -> str:
    ends = (("s_axis", source.name), ("m_axis", target.name))
    handshakes = [(f"{port}_{signal}", f"{name}_{signal}") for port, name in ends for signal in ("tvalid", "tready")]
    data = [(f"{port}_tdata", f"{{{name}_tlast, {name}_tdata}}") for port, name in ends]
    width = {"WIDTH": str(source.width + 1)}
    return instance("axis_skid", f"u_axis_skid_{source.name[0]}", width, [*_CLOCK, *handshakes, *data])


def _convert(
    module: str, streams: tuple[_Stream, _Stream], parameters: list[dict[str, str]], turns: list[int]
) -> Iterator[str]:
    """The Verilog of the converters between two streams. parameters: of each part's converter. turns: beats of each part in a
    row, used where the parts are in beats of their own."""
    source, target = streams
    if len(parameters) == 1:
        ends = [*stream_ports("s_axis", source.name), *stream_ports("m_axis", target.name)]
        yield instance(module, f"u_{module}", parameters[0], [*_CLOCK, *ends])
        return
    side, count = source.name[0], {"N": str(len(parameters))}
    taken, put = f"{source.name}_each", f"{target.name}_each"  # bit i: of part i
    each = (f"{taken}_tvalid", f"{taken}_tready", f"{put}_tvalid", f"{put}_tready", f"{put}_tlast")
    yield "\n".join(f"  wire {vector(len(parameters))}{name};" for name in each)
    if target.in_turns:
        yield "\n".join(f"  wire {vector(bits)}{put}_tdata_{i};" for i, bits in enumerate(target.bits))
    ends = [*_handshake("s_axis", source.name), *_handshake("m_axis", taken)]
    yield instance("axis_broadcast", f"u_axis_broadcast_{side}", count, [*_CLOCK, *ends])
    for i, values in enumerate(parameters):
        data = f"{put}_tdata_{i}" if target.in_turns else target.data(i)
        ends = [
            *_handshake("s_axis", taken, f"[{i}]"), ("s_axis_tdata", source.data(i)), ("s_axis_tlast", f"{source.name}_tlast"),
            *_handshake("m_axis", put, f"[{i}]"), ("m_axis_tdata", data), ("m_axis_tlast", f"{put}_tlast[{i}]"),
        ]  # fmt: skip
        yield instance(module, f"u_{module}_{i}", values, [*_CLOCK, *ends])
    ends = [*_handshake("s_axis", put), *_handshake("m_axis", target.name)]
    yield instance("axis_join", f"u_axis_join_{side}", count, ends)
    yield f"  assign {target.name}_tlast = &{put}_tlast;  // the row's, in each of them"
    if target.in_turns:
        yield from _turns(target, turns)


def _turns(target: _Stream, turns: list[int]) -> Iterator[str]:
    """The Verilog that takes each beat of `target` from the part whose turn it is."""
    name, count = target.name, len(turns)
    yield f"  wire {vector(count)}{name}_turn;\n  wire {name}_part_ends;"
    values = {"N": str(count), "BEATS": beats_literal(turns)}
    step = ("step", f"{name}_tvalid && {name}_tready")
    yield instance("tensor_turns", f"u_tensor_turns_{name[0]}", values, [
        *_CLOCK, step, ("turn", f"{name}_turn"), ("ends", f"{name}_part_ends"),
    ])  # fmt: skip
    each = [_widened(f"{name}_each_tdata_{i}", bits, target.width) for i, bits in enumerate(target.bits)]
    chosen = "".join(f"{name}_turn[{i}] ? {data} :\n      " for i, data in enumerate(each[:-1]))
    yield f"  assign {name}_tdata = {chosen}{each[-1]};"
    yield f"  wire unused_{name} = &{{1'b0, {name}_turn[{count - 1}], {name}_part_ends}};"


def _widened(signal: str, bits: int, to_bits: int) -> str:
    return signal if bits == to_bits else f"{{{to_bits - bits}'d0, {signal}}}"


def beats_literal(numbers: list[int]) -> str:
    """A Verilog literal with 32 bits for each number, the first in the low bits."""
    return f"{32 * len(numbers)}'h" + "_".join(f"{number:08x}" for number in reversed(numbers))


def _handshake(port: str, name: str, bit: str = "") -> list[tuple[str, str]]:
    return [(f"{port}_{signal}", f"{name}_{signal}{bit}") for signal in ("tvalid", "tready")]
