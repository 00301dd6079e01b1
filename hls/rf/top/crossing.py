# SPDX-License-Identifier: Apache-2.0
"""Registers of a stream that passes from die to die: an axis_skid on each side of every boundary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

#: registers at each boundary: one on the die that a stream leaves, one on the die that it enters
REGISTERS = 2

#: dies for which identifiers are reserved (top/scope.py)
MOST_DIES = 8


def skid(instance: str, width: int, source: tuple[str, str, str], sink: tuple[str, str, str]) -> Iterator[str]:
    """Yield the lines of an axis_skid.

    Args:
        width: bits of tdata.
        source, sink: tvalid, tready and tdata.
    """
    yield f"  axis_skid #(.WIDTH({width})) {instance} ("
    yield "      .clk(clk), .rst_n(rst_n),"
    wires = ("tvalid", "tready", "tdata")
    for port, signals, end in (("s_axis", source, ","), ("m_axis", sink, "")):
        yield "      " + ", ".join(f".{port}_{wire}({signal})" for wire, signal in zip(wires, signals, strict=True)) + end
    yield "  );"


def crossing(name: str, width: int, source: str, sink: str, dies: int) -> Iterator[str]:
    """Yield the registers between two sets of wires, <source>_ and <sink>_{tvalid,tready,tdata}, which the caller declares.

    Args:
        name: of the instances and of the wires between them.
        width: bits of tdata.
        dies: boundaries to cross, 1 or more.
    """
    between = [f"{name}_{k}" for k in range(REGISTERS * dies)]
    for wire in between[1:]:
        yield f"  logic {wire}_tvalid, {wire}_tready;"
        yield f"  logic [{width - 1}:0] {wire}_tdata;"
    for instance, (s, m) in zip(between, pairwise([source, *between[1:], sink]), strict=True):
        yield from skid(f"u_{instance}", width, _wires(s), _wires(m))


def crossing_cells(name: str, first: int, last: int) -> dict[str, int]:
    """Return the die of each instance of a crossing from die `first` to die `last`."""
    return {f"u_{name}_{k}": first + (k + 1) // REGISTERS for k in range(REGISTERS * (last - first))}


def _wires(stream: str) -> tuple[str, str, str]:
    return f"{stream}_tvalid", f"{stream}_tready", f"{stream}_tdata"
