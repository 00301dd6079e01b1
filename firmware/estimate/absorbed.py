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
from hypersonic.firmware.estimate.flip_flops import FlipFlop, FlipFlops

_FF = re.compile(r"FD[CPRS]E")
_MULTIPLIER = "DSP48E2"
_BLOCK_RAM = re.compile(r"RAMB(18|36)E2")

#: pins of a flip-flop that a whole row shares
_CONTROL = ("C", "CE", "R", "S", "CLR", "PRE")


def absorb(cells: Iterable[Cell]) -> tuple[list[Cell], int]:
    """Move flip-flops into the DSP48E2 and block RAMs beside them.

    Returns:
        The cells, in which each register of a DSP48E2 (AREG, BREG, MREG, PREG) and of a block RAM (DO_REG) that is used is a
        parameter of 1; and the number of flip-flops that are gone.
    """
    listed = list(cells)
    flip_flops, gone, changed = _flip_flops(listed), set[int](), dict[int, Cell]()
    for place, cell in enumerate(listed):
        if cell.type == _MULTIPLIER and not any(cell.parameters.values()):
            rows, after = _into_multiplier(flip_flops, cell, place)
        elif _BLOCK_RAM.fullmatch(cell.type):
            rows, after = _into_block_ram(flip_flops, cell)
        else:
            continue
        gone |= {ff.cell for row in rows for ff in row}
        changed[place] = after
    return [changed.get(place, cell) for place, cell in enumerate(listed) if place not in gone], len(gone)


def _flip_flops(cells: Sequence[Cell]) -> FlipFlops[str, int]:
    """The flip-flops of a netlist, whose cells are known by their places in it."""
    readers: defaultdict[str, set[int]] = defaultdict(set)
    for place, cell in enumerate(cells):
        for net in outputs_and_inputs(cell)[1]:
            readers[net].add(place)
    ffs = (
        FlipFlop(place, cell.ports["D"], cell.ports["Q"], tuple(cell.ports.get(pin) for pin in _CONTROL))
        for place, cell in enumerate(cells)
        if _FF.fullmatch(cell.type) and "Q" in cell.ports
    )
    return FlipFlops(ffs, readers)


def _into_multiplier(flip_flops: FlipFlops[str, int], cell: Cell, place: int) -> tuple[list[list[FlipFlop[str, int]]], Cell]:
    operands = {name: flip_flops.take(flip_flops.before(dict.fromkeys(_bits(cell, name)), place)) for name in "AB"}
    product = flip_flops.take(flip_flops.behind(_bits(cell, "P")))
    result = flip_flops.take(flip_flops.behind(ff.q for ff in product))
    used = {"AREG": operands["A"], "BREG": operands["B"], "MREG": product, "PREG": result}
    registers = {name: int(bool(row)) for name, row in used.items()}
    ports = {pin: net for pin, net in cell.ports.items() if not pin.startswith("P[")}
    last = {ff.d: ff.q for ff in result}
    through = {ff.d: last.get(ff.q, ff.q) for ff in product}
    ports |= {pin: through.get(net, net) for pin, net in cell.ports.items() if pin.startswith("P[")}
    for name, row in operands.items():
        source = {ff.q: ff.d for ff in row}
        ports |= {pin: source.get(net, net) for pin, net in cell.ports.items() if pin.startswith(f"{name}[")}
    return [*operands.values(), product, result], replace(cell, ports=ports, parameters=cell.parameters | registers)


def _into_block_ram(flip_flops: FlipFlops[str, int], cell: Cell) -> tuple[list[list[FlipFlop[str, int]]], Cell]:
    ports, rows = dict(cell.ports), list[list[FlipFlop[str, int]]]()
    for name in ("DOUTADOUT", "DOUTBDOUT"):
        row = flip_flops.take(flip_flops.behind(_bits(cell, name)))
        through = {ff.d: ff.q for ff in row}
        ports |= {pin: through.get(net, net) for pin, net in cell.ports.items() if pin.startswith(f"{name}[")}
        rows.append(row)
    return rows, replace(cell, ports=ports, parameters=cell.parameters | {"DO_REG": int(any(rows))})


def _bits(cell: Cell, name: str) -> Iterator[str]:
    """The nets of a port, constants apart."""
    pins: Mapping[str, str] = cell.ports
    return (net for pin, net in pins.items() if pin.startswith(f"{name}[") and net not in CONSTANTS)
