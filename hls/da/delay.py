# SPDX-License-Identifier: Apache-2.0
"""What logic takes, in picoseconds, before anything is placed: the figures, and an adder graph's nodes by them.

The figures are a rule of thumb for a -2 part of UltraScale+, with a usual wire to each LUT; no tool has confirmed them on a
routed design. firmware/estimate/logic_path.py counts a netlist by the same ones.

A synthesiser may give every adder a carry chain of its own, or take sums that nobody else reads together: terms beyond two
are then squeezed, three into two at a LUT each, one after the other at worst, before a single chain. Which of them it does
is not known here, so a sum counts what the slowest mixture of both takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypersonic.hls.da.graph import Add, AdderGraph, Clamp, Drop
from hypersonic.hls.fixed import Rounding

#: picoseconds: a wire, a LUT, into and along a carry chain (of four bits), out of it
WIRE, LUT, CARRY_IN, CARRY_ALONG, CARRY_OUT = 300, 100, 150, 10, 100
#: clock to output and set-up of a register
FF_OUT, FF_SETUP = 80, 50

_LEVEL = WIRE + LUT
_LUT_INPUTS = 6


@dataclass(frozen=True)
class Arrival:
    """When a node is there, after the clock's edge.

    terms: of the sum it is, 1 for anything that no sum takes up. parts: (ps, terms) of every sum and term inside it.
    subtracts: whether a term of it is taken away.
    """

    ps: int
    terms: int = 1
    parts: tuple[tuple[int, int], ...] = ()
    subtracts: bool = False

    @property
    def alone(self) -> Arrival:
        """The same for those who cannot take the sum apart: it has other readers too."""
        return Arrival(self.ps)


#: a register's output
REGISTERED = Arrival(FF_OUT)


def adder_ps(width: int) -> int:
    """From the operands to the last bit of a two-operand adder of `width` bits."""
    return _LEVEL + CARRY_IN + CARRY_ALONG * -(-width // 4) + CARRY_OUT


def is_power_of_two(bound: int) -> bool:
    """Whether a clamp sees from the upper bits alone that a number is past the bound: 2**n - 1 or -2**n."""
    magnitude = bound + 1 if bound >= 0 else -bound
    return magnitude & (magnitude - 1) == 0


def arrival(graph: AdderGraph, i: int, operands: Sequence[Arrival]) -> Arrival:
    """When node i is there. operands: of each node it reads, in that order."""
    match graph.nodes[i].operation:
        case Add(subtract=subtract):
            return _sum(operands, adder_ps(graph.nodes[i].width), subtract=subtract)
        case Drop(a, _, rounding):
            return _rounded(operands[0], rounding, adder_ps(graph.nodes[a].width + 1))
        case Clamp(a, low, high):
            return Arrival(operands[0].ps + _clamp_ps(low, high, graph.nodes[a].width))
    return Arrival(max((operand.ps for operand in operands), default=FF_OUT))


def _sum(operands: Sequence[Arrival], adder: int, *, subtract: bool) -> Arrival:
    terms = sum(operand.terms for operand in operands)
    parts = tuple(part for operand in operands for part in ((operand.ps, operand.terms), *operand.parts))
    subtracts = subtract or any(operand.subtracts for operand in operands)
    # a part made whole by a chain of its own is then one of the terms that are left
    squeezed = max(ps + _LEVEL * (terms - inside - 1) for ps, inside in parts)
    # -x is ~x + 1: beside three terms that one is a fourth, beside more there is room for it
    one = _LEVEL if subtracts and terms == 3 else 0
    return Arrival(squeezed + one + adder, terms, parts, subtracts)


def _rounded(x: Arrival, rounding: Rounding, adder: int) -> Arrival:
    """A constant more in the sum; what hangs on x itself, its sign or the bit above the point, takes a LUT first."""
    match rounding:
        case Rounding.TRN:
            return x.alone
        case Rounding.RND | Rounding.RND_MIN_INF:
            return _sum((x, REGISTERED), adder, subtract=False).alone
        case _:
            return Arrival(x.ps + _LEVEL + adder)


def _clamp_ps(low: int | None, high: int | None, width: int) -> int:
    """A LUT that chooses, behind what finds the number past a bound: its sign, its upper bits, or a comparison."""
    bounds = [bound for bound in (low, high) if bound is not None and bound != 0]
    if not all(is_power_of_two(bound) for bound in bounds):
        return 3 * _LEVEL + CARRY_IN + CARRY_ALONG * -(-width // 4)
    return _LEVEL * (1 + max(map(_depth, _upper_bits(bounds, width)), default=0))


def _upper_bits(bounds: Iterable[int], width: int) -> Iterable[int]:
    return (width - max(bound.bit_length(), (-bound - 1).bit_length()) for bound in bounds)


def _depth(inputs: int) -> int:
    """Levels of a tree of LUTs."""
    levels, reach = 1, _LUT_INPUTS
    while reach < inputs:
        levels, reach = levels + 1, reach * _LUT_INPUTS
    return levels
