# SPDX-License-Identifier: Apache-2.0
"""The resources that a netlist of UltraScale+ cells needs, module by module, in the hierarchy of the RTL.

Inverters count as LUTs, and two RAMB18 as one RAMB36. A memory filled from a file (rf_rom) is not a cell of the netlist; its
block RAMs are computed from its width and depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from hypersonic.firmware.estimate.yosys import SynthesisError
from hypersonic.hls.resources import KINDS, NOTHING, Amounts
from hypersonic.hls.rf.cost import block_rams

#: cell -> number of LUTs; carry chains and multiplexers need none of their own
_LUTS = {
    **dict.fromkeys(["LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6", "INV", "SRL16E", "SRLC16E", "SRLC32E"], 1),
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4,
    "RAM256X1D": 8, "RAM512X1S": 8, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8,
}  # fmt: skip
_SIZES = {
    **{name: Amounts(lut=luts) for name, luts in _LUTS.items()},
    **dict.fromkeys(["FDRE", "FDSE", "FDCE", "FDPE", "LDCE", "LDPE"], Amounts(ff=1)),
    "DSP48E2": Amounts(dsp=1),
    "RAMB18E2": Amounts(bram36=0.5),
    "RAMB36E2": Amounts(bram36=1),
    "URAM288": Amounts(uram=1),
}
#: the module of memories that are filled from a file
ROM = "rf_rom"
_FREE = re.compile(r"CARRY[48]|MUXF[789]|VCC|GND|\$scopeinfo")


@dataclass(frozen=True)
class Module:
    """All instances of a module at one place of the hierarchy, together.

    Attributes:
        count: the number of instances.
        own: their resources without those of the modules inside.
    """

    name: str
    count: int
    own: Amounts
    children: tuple[Module, ...] = ()

    @property
    def total(self) -> Amounts:
        """The resources of all instances, with those of the modules inside."""
        return sum((child.total for child in self.children), self.own)

    def walk(self, above: str = "") -> Iterator[tuple[str, Module]]:
        """(path, module) of this module and of every module inside, with paths such as kernel/kernel_shell/axis_row_unpack."""
        path = f"{above}/{self.name}" if above else self.name
        yield path, self
        for child in self.children:
            yield from child.walk(path)


def module_of(
    name: str, count: int, cells: Mapping[str, Mapping[str, int]], known: Mapping[str, Module] | None = None
) -> Module:
    """`count` instances of a module, with the modules inside. Modules that differ only in their parameters count together.

    The caller adds the memories (ROM).

    Args:
        cells: as in Synthesis.
        known: modules that were counted elsewhere, each of which is instantiated once.

    Raises:
        SynthesisError: For a cell of unknown size.
    """
    own, inside, elsewhere = NOTHING, list[Module](), known or {}
    for cell, number in cells[name].items():
        if cell in elsewhere:
            inside.append(elsewhere[cell])
        elif cell in cells:
            inside.append(module_of(cell, number * count, cells, known))
        elif cell != ROM:
            own += _size(cell).times(number * count)
    return Module(_written(name), count, own, merged(inside))


def merged(modules: Iterable[Module]) -> tuple[Module, ...]:
    """The modules with those of the same name added up, sorted by name."""
    by_name: dict[str, list[Module]] = {}
    for module in modules:
        by_name.setdefault(module.name, []).append(module)
    return tuple(
        Module(
            name,
            sum(module.count for module in same),
            sum((module.own for module in same), NOTHING),
            merged([child for module in same for child in module.children]),
        )
        for name, same in sorted(by_name.items())
    )


def _size(cell: str) -> Amounts:
    if cell not in _SIZES and not _FREE.fullmatch(cell):
        raise SynthesisError(f"Yosys used the cell {cell}, whose size is not known; add it to firmware/estimate/module_tree.py")
    return _SIZES.get(cell, NOTHING)


def _written(name: str) -> str:
    """The module's name in the RTL, without the hash or the parameters that Yosys adds."""
    match = re.match(r"\$paramod(?:\$\w+)?\\(\w+)", name)
    return match[1] if match else name


def read_module(value: dict[str, Any]) -> Module:
    """The module in the JSON object that dataclasses.asdict made of it."""
    children = tuple(read_module(child) for child in value["children"])
    return Module(value["name"], value["count"], Amounts.from_json(value["own"]), children)


@dataclass(frozen=True)
class Rom:
    """An rf_rom.

    Attributes:
        width: bits of a word.
        depth: words.
    """

    width: int
    depth: int

    @property
    def module(self) -> Module:
        """Its estimated resources: block RAM, or LUTs and a register for a small memory; none for a single word, which is a
        constant."""
        blocks = block_rams(self.depth, self.width)
        if blocks or self.depth == 1:
            return Module(ROM, 1, Amounts(bram36=blocks))
        return Module(ROM, 1, Amounts(lut=self.width * ceil(self.depth / 64), ff=self.width))


def memory_resources(files: Iterable[Path]) -> Amounts:
    """A lower estimate of the resources of memories filled by $readmemh, from the first lines and the sizes of their files."""
    return sum((_rom_of(file).module.total for file in files), NOTHING)


def _rom_of(file: Path) -> Rom:
    """The smallest memory with this file's contents: a line is a word, whose leading digit may hold only one bit."""
    with file.open("rb") as stream:
        line = len(stream.readline(1 << 24))
    return Rom(max(1, 4 * line - 7), max(1, file.stat().st_size // max(1, line)))


def with_roms(module: Module, roms: Iterable[Rom]) -> Module:
    """The module with these memories added inside it."""
    return replace(module, children=merged([*module.children, *(rom.module for rom in roms)]))


def without_absorbed(module: Module, ffs: int) -> Module:
    """The module, mapped as one, without so many of its flip-flops (absorbed.py)."""
    return replace(module, own=replace(module.own, ff=module.own.ff - ffs))


def scaled(parts: Sequence[tuple[Module, float]]) -> Module:
    """The weighted sum of modules with the same structure, rounded up to whole cells."""
    names = dict.fromkeys(child.name for module, _ in parts for child in module.children)
    own = Amounts(**{name: _whole(sum(getattr(module.own, name) * weight for module, weight in parts)) for name in KINDS})
    children = (
        [(child, weight) for module, weight in parts for child in module.children if child.name == name] for name in names
    )
    count = _whole(sum(module.count * weight for module, weight in parts))
    return Module(parts[0][0].name, count, own, tuple(scaled(list(child)) for child in children))


def _whole(amount: float) -> int:
    return max(0, ceil(amount - 1e-6))
