# SPDX-License-Identifier: Apache-2.0
"""Rows of flip-flops beside a cell that has registers inside, for each family of devices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

Net = TypeVar("Net", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class FlipFlop(Generic[Net, Name]):
    """A flip-flop.

    Attributes:
        cell: the name of its cell, or the cell's place in the netlist.
        d, q: the nets of its input and of its output.
        controls: its clock, enable and reset, which are equal within a row.
    """

    cell: Name
    d: Net
    q: Net
    controls: tuple[Hashable, ...]


class FlipFlops(Generic[Net, Name]):
    """The flip-flops of a netlist by their nets. A row that is taken is not found again.

    Args:
        readers: net -> the cells, and the outputs of the netlist, that read it.
    """

    def __init__(self, all_ffs: Iterable[FlipFlop[Net, Name]], readers: Mapping[Net, Set[Name]]) -> None:
        listed = list(all_ffs)
        self._by_q = {ff.q: ff for ff in listed}
        self._by_d = {ff.d: ff for ff in listed}
        self._readers = readers

    def before(self, nets: Iterable[Net], reader: Name) -> list[FlipFlop[Net, Name]]:
        """The row of flip-flops that drives these nets, which `reader` alone reads; empty if there is none."""
        row = [self._by_q.get(net) for net in nets]
        return _one_row([ff for ff in row if ff and self._readers_of(ff.q) == {reader}], len(row))

    def behind(self, nets: Iterable[Net]) -> list[FlipFlop[Net, Name]]:
        """The row of flip-flops that alone reads these nets; empty if there is none."""
        row = [(net, self._by_d.get(net)) for net in nets if self._readers_of(net)]
        return _one_row([ff for net, ff in row if ff and self._readers_of(net) == {ff.cell}], len(row))

    def take(self, row: list[FlipFlop[Net, Name]]) -> list[FlipFlop[Net, Name]]:
        """Take the row, which goes into the cell beside it. Returns the row."""
        for ff in row:
            del self._by_q[ff.q]
            self._by_d.pop(ff.d, None)  # of several flip-flops that read d, which are never a row behind it, one is there
        return row

    def _readers_of(self, net: Net) -> Set[Name]:
        return self._readers.get(net, frozenset())


def _one_row(row: list[FlipFlop[Net, Name]], expected: int) -> list[FlipFlop[Net, Name]]:
    return row if row and len(row) == expected and len({ff.controls for ff in row}) == 1 else []
