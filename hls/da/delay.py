# SPDX-License-Identifier: Apache-2.0
"""The pre-placement delay model, in ps: its constants, and the arrival times of an adder graph's nodes.

The constants are a rule of thumb for a -2 part of UltraScale+; no tool has confirmed them on a routed design. How a wire's
delay grows with the number of inputs that it drives is that of nextpnr's wires on an ECP5 (docs/timing.md).
firmware/estimate/logic_path.py uses the same model for a netlist.

A synthesiser may give every adder its own carry chain, or merge sums that nothing else reads. A merged sum of more than two
terms is first compressed, three terms into two with one LUT level each time, in the worst case one after the other, and then
added by a single chain. Which of these it does is not known here, so the delay of a sum is that of the slowest mixture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypersonic.hls.da.graph import Add, AdderGraph, Clamp, Drop, Lookup, Select, Shift, Wrap, operands
from hypersonic.hls.fixed import Rounding

#: ps: a wire, a LUT, into a carry chain, along it (per four bits), out of it
WIRE, LUT, CARRY_IN, CARRY_ALONG, CARRY_OUT = 300, 100, 150, 10, 100
#: a wire to more than FEW inputs takes GROWTH of WIRE longer for each doubling
FEW, GROWTH = 16, 0.2
#: ps: clock-to-output delay and set-up time of a register
FF_OUT, FF_SETUP = 80, 50

_LEVEL = WIRE + LUT
LUT_INPUTS = 6


def wire_ps(fan_out: int) -> int:
    """Return the delay of a wire that drives so many inputs, to its slowest one, in ps."""
    return WIRE + round(WIRE * GROWTH * max(0.0, math.log2(max(1, fan_out) / FEW)))


@dataclass(frozen=True)
class Arrival:
    """When a node's value is stable.

    Attributes:
        ps: after the clock's edge.
        terms: the number of terms if it is a sum that may be merged, otherwise 1.
        parts: (ps, terms) of every sum and term inside it.
        subtracts: True if a term is subtracted.
    """

    ps: int
    terms: int = 1
    parts: tuple[tuple[int, int], ...] = ()
    subtracts: bool = False

    @property
    def alone(self) -> Arrival:
        """The same arrival without the terms, for a sum that cannot be merged because it has several readers."""
        return Arrival(self.ps)


#: the arrival of a register's output
REGISTERED = Arrival(FF_OUT)


def adder_ps(width: int) -> int:
    """Return the delay of a two-operand adder of `width` bits, from its operands to its last bit, in ps."""
    return _LEVEL + CARRY_IN + CARRY_ALONG * -(-width // 4) + CARRY_OUT


def fan_outs(graph: AdderGraph) -> list[int]:
    """Return, for each node, the number of inputs that one of its bits drives, all stages together."""
    loads = [0] * len(graph.nodes)
    for i in graph.outputs:
        loads[i] += 1
    for i in reversed(range(len(graph.nodes))):
        width = graph.nodes[i].width
        match graph.nodes[i].operation:
            case Shift(a) | Wrap(a) | Drop(a, _, Rounding.TRN):
                loads[a] += loads[i]
            case Select(a, b):
                loads[a] += 1
                loads[b] += width
            case Lookup(a, values):
                loads[a] += width * -(-len(values) // (1 << LUT_INPUTS))
            case operation:
                for a in operands(operation):
                    loads[a] += 1
    return loads


def is_power_of_two(bound: int) -> bool:
    """Return whether a clamp's bound is 2**n - 1 or -2**n, so that the upper bits alone show that a number is beyond it."""
    magnitude = bound + 1 if bound >= 0 else -bound
    return magnitude & (magnitude - 1) == 0


def after_wire(operand: Arrival, fan_out: int) -> Arrival:
    """Return an operand's arrival, later by what its wire takes longer than one with few loads."""
    longer_ps = wire_ps(fan_out) - WIRE
    return Arrival(operand.ps + longer_ps) if longer_ps else operand


def arrival(graph: AdderGraph, i: int, given: Sequence[Arrival]) -> Arrival:
    """Return the arrival of node i.

    Args:
        given: the arrivals of the nodes that it reads (after_wire), in order.
    """
    match graph.nodes[i].operation:
        case Add(subtract=subtract):
            return _sum(given, adder_ps(graph.nodes[i].width), subtract=subtract)
        case Drop(a, _, rounding):
            return _rounded(given[0], rounding, adder_ps(graph.nodes[a].width + 1))
        case Clamp(a, low, high):
            selects_ps = wire_ps(graph.nodes[i].width) - WIRE
            return Arrival(given[0].ps + _clamp_ps(low, high, graph.nodes[a].width) + selects_ps)
        case Select():
            return Arrival(max(operand.ps for operand in given) + _LEVEL)
        case Lookup(_, values):
            return Arrival(given[0].ps + _LEVEL * _table_levels(len(values)))
    return Arrival(max((operand.ps for operand in given), default=FF_OUT))


def _sum(operands: Sequence[Arrival], adder: int, *, subtract: bool) -> Arrival:
    terms = sum(operand.terms for operand in operands)
    parts = tuple(part for operand in operands for part in ((operand.ps, operand.terms), *operand.parts))
    subtracts = subtract or any(operand.subtracts for operand in operands)
    # a part that is added by its own chain counts as one of the remaining terms
    squeezed = max(ps + _LEVEL * (terms - inside - 1) for ps, inside in parts)
    # -x is ~x + 1: with three terms the 1 becomes a fourth term; with more there is room for it
    one = _LEVEL if subtracts and terms == 3 else 0
    return Arrival(squeezed + one + adder, terms, parts, subtracts)


def _rounded(x: Arrival, rounding: Rounding, adder: int) -> Arrival:
    """Rounding adds a constant to the sum. A constant that depends on x (its sign or last kept bit) takes a LUT first."""
    match rounding:
        case Rounding.TRN:
            return x.alone
        case Rounding.RND | Rounding.RND_MIN_INF:
            return _sum((x, REGISTERED), adder, subtract=False).alone
        case _:
            return Arrival(x.ps + _LEVEL + adder)


def _clamp_ps(low: int | None, high: int | None, width: int) -> int:
    """The delay of a clamp: logic that compares (the sign, the upper bits, or a carry chain), then a LUT that selects."""
    bounds = [bound for bound in (low, high) if bound is not None and bound != 0]
    if not all(is_power_of_two(bound) for bound in bounds):
        return 3 * _LEVEL + CARRY_IN + CARRY_ALONG * -(-width // 4)
    return _LEVEL * (1 + max(map(_depth, _upper_bits(bounds, width)), default=0))


def _upper_bits(bounds: Iterable[int], width: int) -> Iterable[int]:
    return (width - max(bound.bit_length(), (-bound - 1).bit_length()) for bound in bounds)


def _depth(inputs: int) -> int:
    """The levels of a tree of LUTs with so many inputs."""
    levels, reach = 1, LUT_INPUTS
    while reach < inputs:
        levels, reach = levels + 1, reach * LUT_INPUTS
    return levels


def _table_levels(entries: int) -> int:
    """The levels of a table in LUTs: one for 64 entries, and one for each quartering of the rest, which a LUT selects."""
    levels, reach = 1, 1 << LUT_INPUTS
    while reach < entries:
        levels, reach = levels + 1, reach * 4
    return levels
