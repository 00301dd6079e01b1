# SPDX-License-Identifier: Apache-2.0
"""Moves flip-flops into an ECP5's multipliers and block RAMs, as Vivado moves them into those of UltraScale+; Yosys does not.

A MULT18X18D has a register at each operand, behind the multiplier and at the result; a DP16KD has one behind each output. A row
of flip-flops moves when all of them have the same clock, enable and synchronous reset, and when nothing else reads what goes
into the cell or comes out of it. nextpnr knows the delays of a multiplier with registers at both operands or at neither, so the
operands' rows move together. It does not time what is between the registers of a multiplier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from hypersonic.firmware.estimate.flip_flops import FlipFlop, FlipFlops

#: a net's number in Yosys' JSON, or a constant
_Net = int | str
_Ffs = FlipFlops[_Net, str]
_Row = list[FlipFlop[_Net, str]]

_FF, _MULTIPLIER, _BLOCK_RAM = "TRELLIS_FF", "MULT18X18D", "DP16KD"

#: pin of a flip-flop that a whole row shares -> the multiplier's pins, of which each register takes one of four
_CONTROLS = {"CLK": "CLK", "CE": "CE", "LSR": "RST"}

#: a block RAM's outputs, which have a register each; with 36 bits, one port has both
_SIDES = ("A", "B")
_DOUBLE_WIDTH = 36


def absorb(module: Mapping[str, Any]) -> int:
    """Move flip-flops into the cells of a flat module of Yosys' JSON, in place. Returns how many are gone."""
    cells, flip_flops, gone = module["cells"], _flip_flops(module), set[str]()
    for name, cell in cells.items():
        if cell["type"] == _MULTIPLIER:
            gone |= {ff.cell for row in _into_multiplier(flip_flops, name, cell) for ff in row}
        elif cell["type"] == _BLOCK_RAM:
            gone |= {ff.cell for row in _into_block_ram(flip_flops, cell) for ff in row}
    for name in gone:
        del cells[name]
    return len(gone)


def _flip_flops(module: Mapping[str, Any]) -> _Ffs:
    readers: defaultdict[_Net, set[str]] = defaultdict(set)
    for name, port in module["ports"].items():
        for bit in port["bits"] if port["direction"] != "input" else ():
            readers[bit].add(f"port {name}")
    for name, cell in module["cells"].items():
        for pin, bits in cell["connections"].items():
            for bit in bits if cell["port_directions"].get(pin) != "output" else ():
                readers[bit].add(name)
    cells = module["cells"].items()
    return FlipFlops((_flip_flop(name, cell) for name, cell in cells if cell["type"] == _FF and _may_move(cell)), readers)


def _may_move(cell: Mapping[str, Any]) -> bool:
    """Whether a flip-flop is like one of a multiplier's: no control is inverted, and a reset is synchronous and to zero."""
    parameters, reset = cell["parameters"], cell["connections"]["LSR"][0]
    inverted = "INV" in {parameters[f"{pin}MUX"] for pin in _CONTROLS}
    to_zero = bool(parameters["REGSET"] == "RESET" and parameters.get("SRMODE") == "LSR_OVER_CE")
    return not inverted and (reset == "0" or to_zero)


def _flip_flop(name: str, cell: Mapping[str, Any]) -> FlipFlop[_Net, str]:
    connections = cell["connections"]
    controls = tuple(connections.get(pin, ["1"])[0] for pin in _CONTROLS)
    return FlipFlop(name, connections["DI"][0], connections["Q"][0], controls)


def _into_multiplier(flip_flops: _Ffs, name: str, cell: dict[str, Any]) -> Iterator[_Row]:
    operands = {side: flip_flops.before(_nets(cell, side, 18), name) for side in _SIDES}
    if all(operands.values()):
        for side, row in operands.items():
            yield _use(cell, f"INPUT{side}", flip_flops.take(row))
            _reconnect(cell, side, {ff.q: ff.d for ff in row})
    product = flip_flops.take(flip_flops.behind(_nets(cell, "P", 36)))
    result = flip_flops.take(flip_flops.behind(ff.q for ff in product))
    for register, row in ("PIPELINE", product if result else []), ("OUTPUT", result or product):
        if row:
            yield _use(cell, register, row)
            _reconnect(cell, "P", {ff.d: ff.q for ff in row})


def _into_block_ram(flip_flops: _Ffs, cell: dict[str, Any]) -> Iterator[_Row]:
    parameters, connections = cell["parameters"], cell["connections"]
    together = _DOUBLE_WIDTH in {int(parameters[f"DATA_WIDTH_{side}"], 2) for side in _SIDES}
    for sides in [_SIDES] if together else [(side,) for side in _SIDES]:
        row = flip_flops.behind(net for side in sides for net in _nets(cell, f"DO{side}", 18))
        if row and row[0].controls[-1] == "0":
            yield flip_flops.take(row)
            for side in sides:
                parameters[f"REGMODE_{side}"] = "OUTREG"
                connections[f"OCE{side}"] = [row[0].controls[1]]
                _reconnect(cell, f"DO{side}", {ff.d: ff.q for ff in row})


def _nets(cell: Mapping[str, Any], port: str, bits: int) -> dict[_Net, None]:
    """The nets of a port, each once, constants apart."""
    nets = (cell["connections"][f"{port}{bit}"][0] for bit in range(bits))
    return dict.fromkeys(net for net in nets if isinstance(net, int))


def _use(cell: dict[str, Any], register: str, row: _Row) -> _Row:
    """Let a register of a multiplier have the row's clock, enable and reset."""
    connections = cell["connections"]
    for kind, net in zip(_CONTROLS.values(), row[0].controls, strict=True):
        if isinstance(net, int):
            free = next(f"{kind}{place}" for place in range(4) if connections.get(f"{kind}{place}", [net]) == [net])
            connections[free], cell["port_directions"][free] = [net], "input"
            cell["parameters"][f"REG_{register}_{kind}"] = free
    return row


def _reconnect(cell: dict[str, Any], port: str, through: Mapping[_Net, _Net]) -> None:
    connections = cell["connections"]
    for pin, (net, *_) in list(connections.items()):
        if pin.removeprefix(port).isdigit():
            connections[pin] = [through.get(net, net)]
