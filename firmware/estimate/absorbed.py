# SPDX-License-Identifier: Apache-2.0
"""Flip-flops that a DSP48E2 or a block RAM has inside: Vivado moves them there, Yosys does not for UltraScale+.

A DSP48E2 has a register at each operand, behind the multiplier and at the result; a block RAM has one behind its output (UG579,
UG573). A row of flip-flops is absorbed when all of them have the same clock, enable and reset, and when nothing else reads what
goes into the cell or comes out of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hypersonic.firmware.estimate.cells import CONSTANTS, Cell, outputs_and_inputs

_FF = re.compile(r"FD[CPRS]E")
_MULTIPLIER = "DSP48E2"
_BLOCK_RAM = re.compile(r"RAMB(18|36)E2")

#: pins of a flip-flop that a whole row shares
_CONTROL = ("C", "CE", "R", "S", "CLR", "PRE")


class _Netlist:
    """Cells by their nets."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.ff_by_q = {cell.ports["Q"]: cell for cell in cells if _FF.fullmatch(cell.type) and "Q" in cell.ports}
        self.ff_by_d: dict[str, Cell] = {}
        self.readers: defaultdict[str, set[int]] = defaultdict(set)
        for cell in cells:
            for net in outputs_and_inputs(cell)[1]:
                self.readers[net].add(id(cell))
            if _FF.fullmatch(cell.type):
                self.ff_by_d[cell.ports["D"]] = cell

    def before(self, nets: Iterable[str], reader: Cell) -> list[Cell]:
        """The row of flip-flops that drives these nets, which `reader` alone reads; empty if there is none."""
        row = [self.ff_by_q.get(net) for net in nets]
        return self._one_row([ff for ff in row if ff and self.readers[ff.ports["Q"]] == {id(reader)}], len(row))

    def behind(self, nets: Iterable[str]) -> list[Cell]:
        """The row of flip-flops that alone reads these nets; empty if there is none."""
        row = [(net, self.ff_by_d.get(net)) for net in nets if self.readers[net]]
        return self._one_row([ff for net, ff in row if ff and self.readers[net] == {id(ff)}], len(row))

    def _one_row(self, row: list[Cell], expected: int) -> list[Cell]:
        controls = {tuple(ff.ports.get(pin) for pin in _CONTROL) for ff in row}
        return row if row and len(row) == expected and len(controls) == 1 else []


def absorb(cells: Iterable[Cell]) -> tuple[list[Cell], int]:
    """Move flip-flops into the DSP48E2 and block RAMs beside them.

    Returns:
        The cells, in which each register of a DSP48E2 (AREG, BREG, MREG, PREG) and of a block RAM (DO_REG) that is used is a
        parameter of 1; and the number of flip-flops that are gone.
    """
    listed = list(cells)
    netlist, gone, changed = _Netlist(listed), set[int](), dict[int, Cell]()
    for cell in listed:
        if cell.type == _MULTIPLIER and not any(cell.parameters.values()):
            rows, after = _into_multiplier(netlist, cell)
        elif _BLOCK_RAM.fullmatch(cell.type):
            rows, after = _into_block_ram(netlist, cell)
        else:
            continue
        gone |= {id(ff) for row in rows for ff in row}
        changed[id(cell)] = after
    return [changed.get(id(cell), cell) for cell in listed if id(cell) not in gone], len(gone)


def _into_multiplier(netlist: _Netlist, cell: Cell) -> tuple[list[list[Cell]], Cell]:
    operands = {name: netlist.before(dict.fromkeys(_bits(cell, name)), cell) for name in "AB"}
    product = netlist.behind(_bits(cell, "P"))
    result = netlist.behind(ff.ports["Q"] for ff in product)
    used = {"AREG": operands["A"], "BREG": operands["B"], "MREG": product, "PREG": result}
    registers = {name: int(bool(row)) for name, row in used.items()}
    ports = {pin: net for pin, net in cell.ports.items() if not pin.startswith("P[")}
    last = {ff.ports["D"]: ff.ports["Q"] for ff in result}
    through = {ff.ports["D"]: last.get(ff.ports["Q"], ff.ports["Q"]) for ff in product}
    ports |= {pin: through.get(net, net) for pin, net in cell.ports.items() if pin.startswith("P[")}
    for name, row in operands.items():
        source = {ff.ports["Q"]: ff.ports["D"] for ff in row}
        ports |= {pin: source.get(net, net) for pin, net in cell.ports.items() if pin.startswith(f"{name}[")}
    return [*operands.values(), product, result], replace(cell, ports=ports, parameters=cell.parameters | registers)


def _into_block_ram(netlist: _Netlist, cell: Cell) -> tuple[list[list[Cell]], Cell]:
    ports, rows = dict(cell.ports), list[list[Cell]]()
    for name in ("DOUTADOUT", "DOUTBDOUT"):
        row = netlist.behind(_bits(cell, name))
        through = {ff.ports["D"]: ff.ports["Q"] for ff in row}
        ports |= {pin: through.get(net, net) for pin, net in cell.ports.items() if pin.startswith(f"{name}[")}
        rows.append(row)
    return rows, replace(cell, ports=ports, parameters=cell.parameters | {"DO_REG": int(any(rows))})


def _bits(cell: Cell, name: str) -> Iterator[str]:
    """The nets of a port, constants apart."""
    pins: Mapping[str, str] = cell.ports
    return (net for pin, net in pins.items() if pin.startswith(f"{name}[") and net not in CONSTANTS)
