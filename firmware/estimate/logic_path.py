# SPDX-License-Identifier: Apache-2.0
"""The longest paths of logic between registers in a netlist of UltraScale+ cells, by a rule of thumb.

This is not a timing analysis, because no wire has a length before place and route. Each LUT counts with the delay of a typical
wire to it, a carry chain with the delay along it. The delays (hls/da/delay.py) are of the order of those of a -2 part; they
have not been confirmed on a routed design. A path shows where the logic is deep, and its estimated delay, to within some 30 %,
whether a clock is out of reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hypersonic.hls.da.delay import CARRY_ALONG, CARRY_IN, CARRY_OUT, FF_OUT, FF_SETUP, LUT, WIRE

#: clock-to-output and set-up time of a block RAM without output register, in ps
RAM_OUT, RAM_SETUP = 900, 200
#: DSP48E2: a multiplication without a register, and the part of it beside one and between two registers, in ps
DSP_WHOLE, DSP_HALF, DSP_REGISTERED = 2000, 1500, 300

_SEQUENTIAL = re.compile(r"FD[CPRS]E|LD[CP]E|SRL\w+|RAMB(18|36)E2|URAM288\w*|rf_rom")
_OUTPUT = re.compile(r"(Q|O|DO|P|PCOUT|CASDO|DOUT|word)(?![A-Z]*(EN|MODE))\w*(\[\d+\])?$")
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


@dataclass(frozen=True)
class Cell:
    """One .subckt of a netlist."""

    type: str
    ports: dict[str, str]  # port with its bit, such as S[0] -> net
    parameters: dict[str, int] = field(default_factory=dict)
    name: str = ""  # empty where the netlist does not give it


@dataclass
class _Graph:
    """The timing graph: combinational arcs between nets, and the nets at which paths start and end."""

    arcs: dict[str, list[tuple[str, int, str]]] = field(default_factory=dict)  # from -> (to, ps, kind)
    waiting: dict[str, int] = field(default_factory=dict)  # net -> number of arcs that end there
    starts: dict[str, int] = field(default_factory=dict)  # net -> ps after the clock edge
    ends: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # net -> (ps before the clock edge, register)

    def arc(self, source: str, target: str, ps: int, kind: str = "") -> None:
        self.arcs.setdefault(source, []).append((target, ps, kind))
        self.waiting[target] = self.waiting.get(target, 0) + 1

    def end(self, net: str, ps: int, name: str) -> None:
        self.ends.setdefault(net, []).append((ps, name))


def parse_blif(text: str, prefix: str = "", ports: Mapping[str, str] | None = None) -> Iterator[Cell]:
    """The cells of a flat netlist.

    Aliases of nets (.names) are returned as cells of type "BUF" with the ports I and O.

    Args:
        prefix: put before the name of every net, except those in `ports`, which are renamed by it.
    """
    outside = ports or {}
    pending: tuple[str, dict[str, str], dict[str, int], str] | None = None
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == ".param" and pending:
            name, _, value = rest.partition(" ")
            if name in {"AREG", "BREG", "MREG", "PREG"}:
                pending[2][name] = int(value.strip('"'), 2)
            continue
        if word == ".cname" and pending:
            pending = (*pending[:3], rest)
        if word not in {".subckt", ".gate", ".names"}:
            continue
        if pending:
            yield Cell(*pending)
            pending = None
        nets = rest.split()
        if word == ".names":
            if len(nets) == 2:
                source, target = (outside.get(net, prefix + net) for net in nets)
                pending = ("BUF", {"I": source, "O": target}, {}, "")
            continue
        pairs = (pin.partition("=") for pin in nets[1:])
        pending = (
            nets[0],
            {pin: net if net[0] == "$" and net in _CONSTANTS else outside.get(net, prefix + net) for pin, _, net in pairs},
            {},
            "",
        )
    if pending:
        yield Cell(*pending)


_CONSTANTS = frozenset({"$false", "$true", "$undef"})


def longest_paths(cells: Iterable[Cell], most: int = 5) -> tuple[LogicPath, ...]:
    """The longest path that ends in each module; at most `most` of these paths, the longest first. Paths start and end at
    registers, memories and the netlist's ports."""
    graph = _graph(cells)
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


def _graph(cells: Iterable[Cell]) -> _Graph:
    graph = _Graph()
    for number, cell in enumerate(cells):
        pins = {pin: net for pin, net in cell.ports.items() if net not in _CONSTANTS}
        if cell.type == "CARRY4":
            _carry(graph, pins, number)
        elif cell.type == "DSP48E2":
            _dsp(graph, pins, cell.parameters)
        elif _SEQUENTIAL.fullmatch(cell.type):
            _register(graph, pins, cell.type)
        else:
            _logic(graph, pins, cell.type)
    return graph


def _outputs(pins: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The nets that a cell drives, and the nets that it reads apart from clocks."""
    out = [
        net for pin, net in pins.items() if re.match(r"(Q|O|DO|P|PCOUT|CASDO|DOUT|word)(?![A-Z]*(EN|MODE))\w*(\[\d+\])?$", pin)
    ]
    into = [net for pin, net in pins.items() if net not in out and not re.match(r"(W?CLK\w*|C|G|clk)$", pin)]
    return out, into


def _logic(graph: _Graph, pins: Mapping[str, str], type_: str) -> None:
    """Add LUTs, reads of distributed RAM, and multiplexers. Inverters and aliases count as no delay: they are absorbed by the
    cells that they feed."""
    is_lut = _LUT.fullmatch(type_) is not None
    ps = WIRE + LUT if is_lut else LUT if type_.startswith("MUXF") else 0
    out, into = _outputs(pins)
    memory = type_.startswith("RAM")
    for pin, net in pins.items():
        if net in out or net not in into:
            continue
        if memory and not re.match(r"(ADDR|DPRA|A\d)", pin):
            graph.end(net, WIRE + FF_SETUP, net)
            continue
        for target in out:
            graph.arc(net, target, ps, "lut" if is_lut else "")


def _carry(graph: _Graph, pins: Mapping[str, str], number: int) -> None:
    """Add the arcs of a carry cell of four bits. The sum of bit j depends on S[j] and its carry input; the carry output depends
    on S[j], DI[j] and the carry input."""
    kind = f"carry{number}"
    into = [f"{kind}:{bit}" for bit in range(5)]
    for pin in ("CI", "CYINIT"):
        if pin in pins:
            graph.arc(pins[pin], into[0], CARRY_ALONG if pin == "CI" else CARRY_IN, kind)
    for bit in range(4):
        select, sum_, over = pins.get(f"S[{bit}]"), pins.get(f"O[{bit}]"), pins.get(f"CO[{bit}]")
        for net in (select, pins.get(f"DI[{bit}]")):
            if net:
                graph.arc(net, into[bit + 1], CARRY_IN, kind)
        graph.arc(into[bit], into[bit + 1], 0, kind)
        if sum_:
            graph.arc(into[bit], sum_, CARRY_OUT, kind)
            if select:
                graph.arc(select, sum_, CARRY_OUT, kind)
        if over:
            graph.arc(into[bit + 1], over, 0, kind)


def _register(graph: _Graph, pins: Mapping[str, str], type_: str) -> None:
    ram = type_.startswith(("RAMB", "URAM", "rf_rom"))
    out, into = _outputs(pins)
    name = out[0] if out else type_
    for net in out:
        graph.starts[net] = RAM_OUT if ram else FF_OUT
    for pin, net in pins.items():
        if net not in into:
            continue
        if type_.startswith("SRL") and re.match(r"A(\[\d\]|\d)", pin):
            for target in out:
                graph.arc(net, target, WIRE + LUT, "lut")
        else:
            near = not ram and pin == "D"  # a LUT and the register that it feeds share a slice
            graph.end(net, (0 if near else WIRE) + (RAM_SETUP if ram else FF_SETUP), name)


def _dsp(graph: _Graph, pins: Mapping[str, str], parameters: Mapping[str, int]) -> None:
    """Add a DSP. Its own registers, at the operands, after the multiplier and at the result, may cut the path through it."""
    out, into = _outputs(pins)
    operands = bool(parameters.get("AREG") and parameters.get("BREG"))
    product, result = bool(parameters.get("MREG")), bool(parameters.get("PREG"))
    if not (operands or product or result):
        for net in into:
            for target in out:
                graph.arc(net, target, WIRE + DSP_WHOLE, "dsp")
        return
    for net in out:
        graph.starts[net] = DSP_REGISTERED if result else DSP_HALF
    for net in into:
        graph.end(net, WIRE + (DSP_REGISTERED if operands else DSP_HALF), out[0] if out else "DSP48E2")
