# SPDX-License-Identifier: Apache-2.0
"""The longest paths of logic between registers in a netlist of UltraScale+ cells, by a rule of thumb.

This is not a timing analysis, because no wire has a length before place and route. Each LUT counts with the delay of a wire of
its fan-out to it, a carry chain with the delay along it. The delays (hls/da/delay.py) are of the order of those of a -2 part;
they have not been confirmed on a routed design. A path shows where the logic is deep, and its estimated delay, to within some
30 %, whether a clock is out of reach. Designs are ranked by it as by the router of another family (docs/timing.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hypersonic.firmware.estimate.absorbed import absorb
from hypersonic.firmware.estimate.cells import CONSTANTS, Cell, fan_outs, outputs_and_inputs
from hypersonic.hls.da.delay import CARRY_ALONG, CARRY_IN, CARRY_OUT, FF_OUT, FF_SETUP, LUT, wire_ps

#: clock-to-output of a block RAM without and with its output register, and its set-up time, in ps
RAM_OUT, RAM_REGISTERED, RAM_SETUP = 900, 300, 200
#: DSP48E2: a multiplication without a register, and the part of it beside one and between two registers, in ps
DSP_WHOLE, DSP_HALF, DSP_REGISTERED = 2000, 1500, 300

_SEQUENTIAL = re.compile(r"FD[CPRS]E|LD[CP]E|SRL\w+|RAMB(18|36)E2|URAM288\w*|rf_rom")
_LUT = re.compile(r"LUT[1-6]|RAM\d+(X1[SD]|M\d*)")


@dataclass(frozen=True)
class LogicPath:
    """One path.

    Attributes:
        luts, carries: the number of LUTs and of carry cells (four bits each) on it.
        start, end: registers or ports.
    """

    luts: int
    carries: int
    estimated_ns: float
    start: str
    end: str

    @property
    def fastest_mhz(self) -> int:
        """The highest clock frequency, in MHz, at which the estimate meets timing; 0 for a path without delay."""
        return int(1000 / self.estimated_ns) if self.estimated_ns else 0


@dataclass
class _Graph:
    """The timing graph: combinational arcs between nets, and the nets at which paths start and end."""

    arcs: dict[str, list[tuple[str, int, str]]] = field(default_factory=dict)  # from -> (to, ps, kind)
    waiting: dict[str, int] = field(default_factory=dict)  # net -> number of arcs that end there
    starts: dict[str, int] = field(default_factory=dict)  # net -> ps after the clock edge
    ends: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # net -> (ps before the clock edge, register)
    loads: Mapping[str, int] = field(default_factory=dict)  # net -> fan-out
    made: frozenset[str] = frozenset()  # nets that logic drives
    carried: frozenset[str] = frozenset()  # those that a carry cell drives, which reach the next one without a wire

    def arc(self, source: str, target: str, ps: int, kind: str = "") -> None:
        self.arcs.setdefault(source, []).append((target, ps, kind))
        self.waiting[target] = self.waiting.get(target, 0) + 1

    def wire(self, net: str) -> int:
        """The delay of a net, in ps."""
        return wire_ps(self.loads[net])

    def near(self, net: str) -> int:
        """The delay of a net to a register or a carry cell, which shares a slice with the LUT before it."""
        return 0 if net in self.made else self.wire(net)

    def end(self, net: str, ps: int, name: str) -> None:
        self.ends.setdefault(net, []).append((ps, name))


def longest_paths(cells: Iterable[Cell], most: int = 5) -> tuple[LogicPath, ...]:
    """The longest path that ends in each module; at most `most` of these paths, the longest first. Paths start and end at
    registers, memories and the netlist's ports. DSP48E2 and block RAMs absorb the flip-flops beside them (absorbed.py).
    """
    graph = _graph(absorb(cells)[0])
    arrival: dict[str, int] = {}
    before: dict[str, tuple[str, str]] = {}
    nets = set(graph.arcs) | set(graph.waiting) | set(graph.ends) | set(graph.starts)
    ready = sorted(net for net in nets if net not in graph.waiting)
    while ready:
        net = ready.pop()
        here = arrival.setdefault(net, graph.starts.get(net, 0))
        for target, ps, kind in graph.arcs.get(net, ()):
            if here + ps > arrival.get(target, -1):
                arrival[target], before[target] = here + ps, (net, kind)
            graph.waiting[target] -= 1
            if not graph.waiting[target]:
                ready.append(target)
    return _worst(graph, arrival, before, most)


def _worst(
    graph: _Graph, arrival: Mapping[str, int], before: Mapping[str, tuple[str, str]], most: int
) -> tuple[LogicPath, ...]:
    ends = {net: [(0, net)] for net in arrival if net not in graph.arcs and not net.startswith("carry")} | graph.ends
    timed = [(arrival[net] + ps, name, net) for net, registers in ends.items() if net in arrival for ps, name in registers]
    worst: dict[str, LogicPath] = {}
    for total, name, net in sorted(timed, reverse=True):
        if len(worst) == most:
            break
        module = _module(name)
        if module not in worst:
            worst[module] = _path(total, name, net, before)
    return tuple(worst.values())


def _path(total: int, name: str, net: str, before: Mapping[str, tuple[str, str]]) -> LogicPath:
    kinds = list[str]()
    while net in before:
        net, kind = before[net]
        kinds.append(kind)
    # a path through several bits of one carry cell counts the cell once
    carries = {kind for kind in kinds if kind.startswith("carry")}
    return LogicPath(kinds.count("lut"), len(carries), round(total / 1000, 2), plain_name(net), plain_name(name))


def _module(register: str) -> str:
    """The instance that a register is in: u_control for u_control.state_q[3]. Generated copies count as one instance."""
    plain = re.sub(r"\[\d+\]", "", plain_name(register))
    return plain if "$" in register else plain.rpartition(".")[0]


def plain_name(net: str) -> str:
    """A net's name without the synthesiser's decorations, such as u_control.state_q[3]."""
    if "$" not in net:
        return net
    parts = [part for part in re.split(r"[.\\]+", net) if re.fullmatch(r"\w+(\[\d+\])?", part)]
    return ".".join(parts) or net


def _graph(cells: Sequence[Cell]) -> _Graph:
    logic = (cell for cell in cells if not _SEQUENTIAL.fullmatch(cell.type) and cell.type not in {"DSP48E2", "BUF"})
    made = frozenset(net for cell in logic for net in outputs_and_inputs(cell)[0])
    carried = frozenset(net for cell in cells if cell.type == "CARRY4" for pin, net in cell.ports.items() if pin[:2] == "CO")
    graph = _Graph(loads=fan_outs(cells), made=made, carried=carried)
    for number, cell in enumerate(cells):
        if cell.type == "CARRY4":
            _carry(graph, {pin: net for pin, net in cell.ports.items() if net not in CONSTANTS}, number)
        elif cell.type == "DSP48E2":
            _dsp(graph, cell)
        elif _SEQUENTIAL.fullmatch(cell.type):
            _register(graph, cell)
        else:
            _logic(graph, cell)
    return graph


def _logic(graph: _Graph, cell: Cell) -> None:
    """Add LUTs, reads of distributed RAM, and multiplexers. Inverters and aliases count as no delay: they are absorbed by the
    cells that they feed."""
    pins, type_ = cell.ports, cell.type
    is_lut = _LUT.fullmatch(type_) is not None
    out, into = outputs_and_inputs(cell)
    memory = type_.startswith("RAM")
    for pin, net in pins.items():
        if net in out or net not in into:
            continue
        if memory and not re.match(r"(ADDR|DPRA|A\d)", pin):
            graph.end(net, graph.wire(net) + FF_SETUP, net)
            continue
        ps = graph.wire(net) + LUT if is_lut else LUT if type_.startswith("MUXF") else 0
        for target in out:
            graph.arc(net, target, ps, "lut" if is_lut else "")


def _carry(graph: _Graph, pins: Mapping[str, str], number: int) -> None:
    """Add the arcs of a carry cell of four bits. The sum of bit j depends on S[j] and its carry input; the carry output depends
    on S[j], DI[j] and the carry input."""
    kind = f"carry{number}"
    into = [f"{kind}:{bit}" for bit in range(5)]
    if "CI" in pins:
        graph.arc(f"carry:{pins['CI']}" if pins["CI"] in graph.carried else pins["CI"], into[0], CARRY_ALONG, kind)
    if "CYINIT" in pins:
        graph.arc(pins["CYINIT"], into[0], graph.wire(pins["CYINIT"]) + CARRY_IN, kind)
    for bit in range(4):
        select, sum_, over = pins.get(f"S[{bit}]"), pins.get(f"O[{bit}]"), pins.get(f"CO[{bit}]")
        for net in (select, pins.get(f"DI[{bit}]")):
            if net:
                graph.arc(net, into[bit + 1], graph.near(net) + CARRY_IN, kind)
        graph.arc(into[bit], into[bit + 1], 0, kind)
        if sum_:
            graph.arc(into[bit], sum_, CARRY_OUT, kind)
            if select:
                graph.arc(select, sum_, graph.near(select) + CARRY_OUT, kind)
        if over:
            graph.arc(into[bit + 1], over, CARRY_OUT, kind)
            graph.arc(into[bit + 1], f"carry:{over}", 0, kind)


def _register(graph: _Graph, cell: Cell) -> None:
    pins, type_ = cell.ports, cell.type
    ram = type_.startswith(("RAMB", "URAM", "rf_rom"))
    out, into = outputs_and_inputs(cell)
    name = out[0] if out else type_
    for net in out:
        graph.starts[net] = (RAM_REGISTERED if cell.parameters.get("DO_REG") else RAM_OUT) if ram else FF_OUT
    for pin, net in pins.items():
        if net not in into:
            continue
        if type_.startswith("SRL") and re.match(r"A(\[\d\]|\d)", pin):
            for target in out:
                graph.arc(net, target, graph.wire(net) + LUT, "lut")
        else:
            wire = graph.near(net) if pin == "D" and not ram else graph.wire(net)
            graph.end(net, wire + (RAM_SETUP if ram else FF_SETUP), name)


def _dsp(graph: _Graph, cell: Cell) -> None:
    """Add a DSP. Its own registers, at the operands, after the multiplier and at the result, may cut the path through it."""
    out, into = outputs_and_inputs(cell)
    registers = {name for name, used in cell.parameters.items() if used}
    cut = bool(registers & {"MREG", "PREG"})
    if registers:
        after = DSP_REGISTERED if "PREG" in registers else DSP_HALF if "MREG" in registers else DSP_WHOLE
        graph.starts |= dict.fromkeys(out, after)
    for pin, net in cell.ports.items():
        if net not in into:
            continue
        if f"{pin[0]}REG" in registers & {"AREG", "BREG"}:
            graph.end(net, graph.wire(net) + DSP_REGISTERED, out[0] if out else cell.type)
        elif cut:
            graph.end(net, graph.wire(net) + (DSP_HALF if "MREG" in registers else DSP_WHOLE), out[0] if out else cell.type)
        else:
            for target in out:
                graph.arc(net, target, graph.wire(net) + DSP_WHOLE, "dsp")
