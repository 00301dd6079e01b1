# SPDX-License-Identifier: Apache-2.0
"""The part of a kernel's top between shell and core: a converter for each tensor. A FIFO ends each of them.

::

    one tensor   shell -> x_row -> axis_wire_to_fixed -> x -> core -> y -> axis_fixed_to_wire -> y_row -> shell

    several                     +-> axis_wire_to_fixed -+
              x_row -> axis_broadcast                axis_join -> x      ... and the same from y to y_row
                                +-> axis_wire_to_fixed -+

A row is the concatenation of its tensors, in the datatypes of memory (x_row, y_row) or as raw integers (hls/row.py). Where a
row is several beats, a converter works on one beat of its tensor at a time. With several tensors, every converter is given
every beat, and tensor_turns selects the result of the converter whose tensor the beat belongs to.

A packed row has a converter for each field, and each takes its bits of the row: axis_wire_to_fixed for numbers,
axis_codes_to_fixed for codes with a table. A packed row of several beats has one field; beats that are not whole bytes
come from memory in groups, through rf_lanes. A packed row of one beat passes a register slice before its converters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from hypersonic.firmware.kernel.parts import TO_WIRE, RowPart, converter_parameters, grouped_beats, parts
from hypersonic.firmware.verilog import instance, part, stream_ports, stream_wires, vector
from hypersonic.hls.core import Port
from hypersonic.hls.fixed import FixedPoint

#: the modules that only a row of several parts needs
SEVERAL = ("axis_broadcast", "axis_join", "tensor_turns")

#: turns groups of beats into beats
_LANES = "rf_lanes"

_CLOCK = [("clk", "ap_clk"), ("rst_n", "rst_n")]


class _Stream(NamedTuple):
    """A stream of rows.

    Attributes:
        places: of each part in a beat, (first bit, bits), low bits first. Parts are side by side in one beat, or, if in_turns,
            each in the low bits of beats of its own.
    """

    name: str
    places: tuple[tuple[tuple[int, int], ...], ...]
    in_turns: bool
    width: int

    def data(self, index: int) -> str:
        """The part-selects of one part in a beat."""
        chosen = [part(f"{self.name}_tdata", first, bits, self.width) for first, bits in reversed(self.places[index])]
        return chosen[0] if len(chosen) == 1 else f"{{{', '.join(chosen)}}}"

    def bits(self, index: int) -> int:
        """The bits of one part."""
        return sum(bits for _, bits in self.places[index])

    def wires(self) -> str:
        return stream_wires(self.name, self.width)


def input_text(port: Port) -> str:
    """The Verilog of the wires x_row and x, and of the modules between them."""
    taken = parts(port)
    rows, x = _rows("x_row", port), _raw("x", port)
    converters = [(one.module, converter_parameters(one, one.tensor.fixed)) for one in taken]
    wires = [stream.wires() for stream in (rows, x)]
    together = grouped_beats(port)
    groups = [*_grouped(rows, taken[0], together)] if together > 1 else [*_held(rows)] if is_held(port) else []
    unused = [f"  wire unused_x_row = &{{1'b0, {', '.join(bits)}}};"] if (bits := unused_bits(port)) else []
    converted = _convert((rows, x), converters, [one.beats for one in taken])
    return "\n\n".join([*wires, *groups, *unused, *converted])


def output_text(port: Port) -> str:
    """The Verilog of the wires y and y_row, and of the modules between them."""
    given = parts(port)
    y, rows = _raw("y", port), _rows("y_row", port)
    floating = FixedPoint(1, 1)  # a placeholder: the conversion to floating point uses no fixed-point type
    parameters = [converter_parameters(one, one.tensor.integer if one.tensor.element.is_integer else floating) for one in given]
    wires = [stream.wires() for stream in (y, rows)]
    return "\n\n".join([*wires, *_convert((y, rows), [(TO_WIRE, values) for values in parameters], [1])])


def _rows(name: str, port: Port) -> _Stream:
    if port.lanes:
        return _in_turns(name, [one.bits for one in parts(port)])
    return _Stream(name, tuple(one.places for one in parts(port)), False, 8 * port.row.row_bytes)


def _raw(name: str, port: Port) -> _Stream:
    bits = [one.raw_bits for one in parts(port)]
    if port.lanes:
        return _in_turns(name, bits)
    firsts = accumulate(bits, initial=0)
    return _Stream(name, tuple(((first, own),) for first, own in zip(firsts, bits, strict=False)), False, sum(bits))


def _in_turns(name: str, bits: list[int]) -> _Stream:
    return _Stream(name, tuple(((0, own),) for own in bits), True, max(bits))


def _grouped(rows: _Stream, taken: RowPart, together: int) -> Iterator[str]:
    """The Verilog of the wires that carry `together` beats at once, and of the module that gives them one by one."""
    groups = rows._replace(name=f"{rows.name}_group", width=together * rows.width)
    lanes = {"IN_LANES": str(together), "OUT_LANES": "1", "WIDTH": str(taken.bits)}
    yield groups.wires()
    ends = [*stream_ports("s_axis", groups.name), *stream_ports("m_axis", rows.name)]
    yield instance(_LANES, f"u_{_LANES}_{rows.name[0]}", lanes, [*_CLOCK, *ends])


def is_held(port: Port) -> bool:
    """Whether there is a register slice before the converters. A packed row has many converters, and without the slice the
    ready signals of all of them reach the unpacking of rows in one clock: the longest path of facile_adc's kernel is then
    4.1 ns instead of 3.7 by Yosys' estimate."""
    return not port.lanes and any(one.codes for one in parts(port)) and len(parts(port)) > 1


def memory_stream(port: Port) -> str:
    """The name of the stream of input rows as they come from memory."""
    return "x_row_group" if grouped_beats(port) > 1 else "x_memory" if is_held(port) else "x_row"


def _held(rows: _Stream) -> Iterator[str]:
    """The Verilog of the wires that come from memory, and of the register slice behind them."""
    source = rows._replace(name="x_memory")
    yield source.wires()
    ends = (("s_axis", source.name), ("m_axis", rows.name))
    handshakes = [(f"{port}_{signal}", f"{name}_{signal}") for port, name in ends for signal in ("tvalid", "tready")]
    data = [(f"{port}_tdata", f"{{{name}_tlast, {name}_tdata}}") for port, name in ends]
    yield instance("axis_skid", "u_axis_skid_row", {"WIDTH": str(source.width + 1)}, [*_CLOCK, *handshakes, *data])


def unused_bits(port: Port) -> list[str]:
    """The expressions of the bits of x_row that no converter of a packed row takes."""
    taken = [] if port.lanes else sorted(place for one in parts(port) for place in one.places)
    ends, width, expressions = 0, 8 * port.row.row_bytes, list[str]()
    for first, bits in [*taken, (width, 0)] if taken else []:
        if first > ends:
            expressions.append(part("x_row_tdata", ends, first - ends, width))
        ends = max(ends, first + bits)
    return expressions


def _convert(streams: tuple[_Stream, _Stream], converters: list[tuple[str, dict[str, str]]], turns: list[int]) -> Iterator[str]:
    """The Verilog of the converters between two streams.

    Args:
        converters: module and parameters for each part.
        turns: beats of each part in a row, used where the parts are in beats of their own.
    """
    source, target = streams
    if len(converters) == 1:
        ((module, values),) = converters
        ends = [*_handshake("s_axis", source.name), ("s_axis_tdata", source.data(0)), ("s_axis_tlast", f"{source.name}_tlast")]
        yield instance(module, f"u_{module}", values, [*_CLOCK, *ends, *stream_ports("m_axis", target.name)])
        return
    side, count = source.name[0], {"N": str(len(converters))}
    taken, put = f"{source.name}_each", f"{target.name}_each"  # bit i: of part i
    each = (f"{taken}_tvalid", f"{taken}_tready", f"{put}_tvalid", f"{put}_tready", f"{put}_tlast")
    yield "\n".join(f"  wire {vector(len(converters))}{name};" for name in each)
    if target.in_turns:
        yield "\n".join(f"  wire {vector(target.bits(i))}{put}_tdata_{i};" for i in range(len(converters)))
    ends = [*_handshake("s_axis", source.name), *_handshake("m_axis", taken)]
    yield instance("axis_broadcast", f"u_axis_broadcast_{side}", count, [*_CLOCK, *ends])
    for i, (module, values) in enumerate(converters):
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
    each = [_widened(f"{name}_each_tdata_{i}", target.bits(i), target.width) for i in range(count)]
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
