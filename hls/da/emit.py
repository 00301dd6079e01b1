# SPDX-License-Identifier: Apache-2.0
"""Writes an adder graph as SystemVerilog: signed wires of explicit widths, and one block of registers per stage.

`n12` is node 12 in the stage that computes it, `n12_s4` its register at the start of stage 4. Every change of width is written
as a size cast, so the text is clean under `verilator --lint-only -Wall` and means the same in every tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from hypersonic.hls.core import core_signals, module_header
from hypersonic.hls.da.delay import is_power_of_two
from hypersonic.hls.da.graph import Add, Clamp, Constant, Drop, Input, Lookup, Node, Operation, Select, Shift, Wrap
from hypersonic.hls.da.schedule import Schedule
from hypersonic.hls.fixed import FixedPoint, Rounding


class Lanes:
    """The positions of a row's elements in tdata: packed without gaps, element 0 in the low bits.

    Args:
        types: of all elements. widths, starts: bits and lowest bit of each element. bits: of the whole row.
    """

    def __init__(self, types: Sequence[FixedPoint]) -> None:
        self.widths = tuple(precision.width for precision in types)
        self.starts = tuple(accumulate(self.widths[:-1], initial=0))
        self.bits = sum(self.widths)


def network_module(name: str, plan: Schedule, x: Lanes, y: Lanes) -> str:
    """Return the SystemVerilog of module `name`: a free-running pipeline from x_tdata to y_tdata in plan.stages clocks."""
    lines = [
        *_HEAD.format(name=name, stages=plan.stages).splitlines(),
        f"module {name} (",
        "    input  logic clk,",
        f"    input  logic [{x.bits - 1}:0] x_tdata,",
        f"    output logic [{y.bits - 1}:0] y_tdata",
        ");",
        *(line for stage in range(plan.stages) for line in _stage(plan, stage, x)),
        "",
        *_outputs(plan, y),
        *_sink(plan, x),
        "endmodule",
        "",
        "`default_nettype wire",
    ]
    return "\n".join(lines) + "\n"


_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
//
// {name}: the network as adders, written by hypersonic (hls/da/emit.py). A free-running pipeline of {stages} clocks, one row
// per clock; it has neither valid nor reset: the core around it counts the rows.
`default_nettype none
"""


def _stage(plan: Schedule, stage: int, x: Lanes) -> Iterator[str]:
    yield ""
    yield f"  // stage {stage}"
    yield from _registers(plan, stage, x)
    for i, node in enumerate(plan.graph.nodes):
        if plan.stage[i] == stage and plan.widths[i] and not isinstance(node.operation, Input | Constant):
            width = plan.widths[i][0]
            yield f"  logic signed [{width - 1}:0] n{i};"
            if isinstance(node.operation, Lookup):
                yield from _table(f"n{i}", node.operation.values, _name(plan, node.operation.a, stage), width)
            else:
                yield f"  assign n{i} = {_expression(plan, node.operation, stage, width)};"


def _registers(plan: Schedule, stage: int, x: Lanes) -> Iterator[str]:
    """The registers at the start of a stage: in stage 0 the inputs, later the earlier nodes that are read from here on."""
    moves = [*_input_moves(plan, x)] if stage == 0 else [*_moves(plan, stage)]
    for register, width, _ in moves:
        yield f"  logic signed [{width - 1}:0] {register};"
    if moves:
        yield "  always_ff @(posedge clk) begin"
        yield from (f"    {register} <= {source};" for register, _, source in moves)
        yield "  end"


def _input_moves(plan: Schedule, x: Lanes) -> Iterator[tuple[str, int, str]]:
    for i, (node, widths) in enumerate(zip(plan.graph.nodes, plan.widths, strict=True)):
        if isinstance(node.operation, Input) and widths:
            start, width = x.starts[node.operation.index], x.widths[node.operation.index]
            bits = f"x_tdata[{start} +: {min(widths[0], width)}]"
            # an unsigned type gets a sign bit here, unless its readers drop that bit
            yield f"n{i}", widths[0], f"{{1'b0, {bits}}}" if widths[0] > width else bits


def _moves(plan: Schedule, stage: int) -> Iterator[tuple[str, int, str]]:
    for i, (node, first, widths) in enumerate(zip(plan.graph.nodes, plan.stage, plan.widths, strict=True)):
        if not isinstance(node.operation, Constant) and first < stage < first + len(widths):
            width, before = widths[stage - first], widths[stage - first - 1]
            source = _name(plan, i, stage - 1)
            yield f"n{i}_s{stage}", width, source if width == before else f"{width}'({source})"


def _name(plan: Schedule, i: int, stage: int) -> str:
    """The name of node i, or of its register, in stage `stage`."""
    node = plan.graph.nodes[i]
    if isinstance(node.operation, Constant):
        return _literal(node.operation.value, node.width)
    return f"n{i}" if plan.stage[i] == stage else f"n{i}_s{stage}"


def _literal(value: int, width: int) -> str:
    """A signed constant in hexadecimal: the most negative one cannot be written as a negated decimal."""
    return f"{width}'sh{value & ((1 << width) - 1):x}"


def _expression(plan: Schedule, operation: Operation, stage: int, width: int) -> str:
    def name(i: int) -> str:
        return _name(plan, i, stage)

    match operation:
        case Add(a, b, shift_a, shift_b, subtract):
            return f"{_shifted(name(a), shift_a, width)} {'-' if subtract else '+'} {_shifted(name(b), shift_b, width)}"
        case Shift(a, bits):
            return _shifted(name(a), bits, width)
        case Drop(a, bits, rounding):
            return _dropped(name(a), bits, rounding, width, max(plan.graph.nodes[a].width + 1, bits + 2))
        case Wrap(a, bits, signed):
            return f"{width}'({name(a)})" if signed or width <= bits else f"{{1'b0, {bits}'({name(a)})}}"
        case Clamp(a, low, high):
            return _clamped(name(a), low, high, width, plan.graph.nodes[a])
        case Select(a, b, bit):
            # a sign is a comparison: lint sees that all bits are read
            chosen = f"{name(b)} < 0" if bit == plan.graph.nodes[b].width - 1 else f"{name(b)}[{bit}]"
            return f"{width}'({name(a)}) & {{{width}{{{chosen}}}}}"
    raise AssertionError(operation)


def _table(name: str, values: tuple[int, ...], index: str, width: int) -> Iterator[str]:
    """A case statement, of which synthesisers make a memory or LUTs. The commonest value is the default."""
    bits = (len(values) - 1).bit_length()
    words = [_literal(value, width) for value in values]
    common = Counter(words).most_common(1)[0][0]
    yield "  always_comb"
    yield f"    case ({bits}'({index}))"
    yield from (f"      {bits}'d{k}: {name} = {word};" for k, word in enumerate(words) if word != common)
    yield f"      default: {name} = {common};"
    yield "    endcase"


def _shifted(name: str, bits: int, width: int) -> str:
    return f"({width}'({name}) <<< {bits})" if bits else f"{width}'({name})"


def _dropped(name: str, bits: int, rounding: Rounding, width: int, wide: int) -> str:
    """The number without its lowest bits, rounded.

    Args:
        wide: enough bits for the number plus half a unit.
    """
    half = 1 << (bits - 1)
    match rounding:
        case Rounding.TRN:
            return f"{width}'({name} >>> {bits})"
        case Rounding.RND:
            added = _literal(half, wide)
        case Rounding.RND_CONV:
            added = f"{_literal(half - 1, wide)} + ({wide}'({name} >>> {bits}) & {_literal(1, wide)})"
        case Rounding.TRN_ZERO:
            added = f"({name} < 0 ? {_literal(2 * half - 1, wide)} : {_literal(0, wide)})"
        case Rounding.RND_ZERO:
            added = f"({name} < 0 ? {_literal(half, wide)} : {_literal(half - 1, wide)})"
        case Rounding.RND_INF:
            added = f"({name} < 0 ? {_literal(half - 1, wide)} : {_literal(half, wide)})"
        case Rounding.RND_MIN_INF:
            added = _literal(half - 1, wide)
    return f"{width}'(({wide}'({name}) + {added}) >>> {bits})"


def _clamped(name: str, low: int | None, high: int | None, width: int, node: Node) -> str:
    """The clamped number.

    If these are fewer than a bound's bits (because a wrapping cast follows), the comparison reads the whole number, so that no
    bit is left unread.

    Args:
        node: the number's node; a bound inside its range fits its width.
        width: bits of the result that are read.
    """
    if low == 0 and high is None:
        return f"{width}'({name} & ~({name} >>> {node.width - 1}))"
    text = f"{width}'({name})"
    if high is not None:
        text = f"{_above(name, high, width, node)} ? {_literal(high, width)} : {text}"
    if low is not None:
        text = f"{_below(name, low, width, node)} ? {_literal(low, width)} : {text}"
    return text


def _above(name: str, high: int, width: int, node: Node) -> str:
    """The condition name > high; for a bound of 2**n - 1 a test of the upper bits, which needs no comparison."""
    if not is_power_of_two(high) or high < 0 or width < high.bit_length():
        return f"({name} > {_literal(high, node.width)})"
    if node.low >= 0:
        return f"(|{name}[{node.width - 1}:{high.bit_length()}])"  # its sign is always 0
    return f"(!{name}[{node.width - 1}] && (|{name}[{node.width - 2}:{high.bit_length()}]))"


def _below(name: str, low: int, width: int, node: Node) -> str:
    """The condition name < low; for a bound of -2**n a test of the upper bits."""
    if low >= 0 or not is_power_of_two(low) or width < (-low - 1).bit_length():
        return f"({name} < {_literal(low, node.width)})"
    return f"({name}[{node.width - 1}] && !(&{name}[{node.width - 2}:{(-low - 1).bit_length()}]))"


def _outputs(plan: Schedule, y: Lanes) -> Iterator[str]:
    for i, start, width in zip(plan.graph.outputs, y.starts, y.widths, strict=True):
        yield f"  assign y_tdata[{start} +: {width}] = {width}'({_name(plan, i, plan.stages - 1)});"


def _sink(plan: Schedule, x: Lanes) -> Iterator[str]:
    """A wire for input bits that no weight reads; lint accepts it because its name begins with `unused`."""
    unread = ["clk"] if plan.register_bits == 0 else []
    for node, widths in zip(plan.graph.nodes, plan.widths, strict=True):
        read = widths[0] if widths else 0
        if isinstance(node.operation, Input) and read < x.widths[node.operation.index]:
            start, width = x.starts[node.operation.index], x.widths[node.operation.index]
            unread.append(f"x_tdata[{start + read} +: {width - read}]")
    if unread:
        yield "  logic unused_inputs;"
        yield "  assign unused_inputs = ^{"
        yield from (f"      {bits}," for bits in unread[:-1])
        yield f"      {unread[-1]}"
        yield "  };"


def core_module(name: str, network: str, plan: Schedule, x_bits: int, y_bits: int) -> str:
    """Return the SystemVerilog of the core's top module: module `network` between two streams of x_bits and y_bits."""
    header = module_header(name, core_signals(x_bits, y_bits))
    return _CORE.format(name=name, header=header, network=network, y_high=y_bits - 1, y_bits=y_bits, latency=plan.stages)


_CORE = """\
// SPDX-License-Identifier: Apache-2.0
//
// {name}: module {network} as a stream, written by hypersonic (hls/da/emit.py). One row per beat, element 0 in the low bits.
`default_nettype none

{header}
  logic [{y_high}:0] y_tdata;

  {network} u_network (
      .clk(clk),
      .x_tdata(s_axis_x_tdata),
      .y_tdata(y_tdata)
  );

  axis_free_running #(
      .WIDTH({y_bits}),
      .LATENCY({latency})
  ) u_axis_free_running (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_x_tvalid),
      .s_axis_tready(s_axis_x_tready),
      .s_axis_tlast(s_axis_x_tlast),
      .pipeline_tdata(y_tdata),
      .m_axis_tvalid(m_axis_y_tvalid),
      .m_axis_tready(m_axis_y_tready),
      .m_axis_tdata(m_axis_y_tdata),
      .m_axis_tlast(m_axis_y_tlast)
  );
endmodule

`default_nettype wire
"""
