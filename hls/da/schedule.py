# SPDX-License-Identifier: Apache-2.0
"""Pipelines an adder graph: puts each node into the earliest stage that has time for it.

No open tool has timing data for UltraScale+, so delays are those of hls/da/delay.py. STAGE_NS is the only parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypersonic.hls.da.delay import FF_SETUP, LUT_INPUTS, REGISTERED, WIRE, Arrival, after_wire, arrival, fan_outs
from hypersonic.hls.da.graph import (
    Add,
    AdderGraph,
    Clamp,
    Constant,
    Drop,
    Input,
    Lookup,
    Operation,
    Select,
    Shift,
    Wrap,
    operands,
)
from hypersonic.hls.fixed import BY_SIGN, Rounding

#: estimated ns from register to register; 300 MHz are 3.33 ns, and the difference is a margin for long wires
STAGE_NS = 2.8


@dataclass(frozen=True)
class Schedule:
    """An adder graph and its pipeline registers.

    Attributes:
        stage: of each node, the stage, from 0, that computes it.
        ready_ps: of each node, its estimated delay after the clock's edge, in ps.
        widths: of each node, the number of its low bits that are read: in its own stage, then in each later one up to its last
            reader. Bits that every reader drops are left out; for example, a sum that wraps needs only as many bits of its
            terms as it keeps. Empty if nothing reads the node.
    """

    graph: AdderGraph
    stage: tuple[int, ...]
    widths: tuple[tuple[int, ...], ...]
    ready_ps: tuple[int, ...]

    @property
    def stages(self) -> int:
        """The number of stages: clocks from x_tdata to y_tdata."""
        return 1 + max(self.stage[i] for i in self.graph.outputs)

    @property
    def adders(self) -> int:
        """The number of two-operand adders and rounding adders."""
        return sum(isinstance(node.operation, Add | Drop) and is_logic(node.operation) for node in self.graph.nodes)

    @property
    def register_bits(self) -> int:
        """Bits of all pipeline registers, including those of the inputs."""
        return sum(
            sum(widths if isinstance(node.operation, Input) else widths[1:])
            for node, widths in zip(self.graph.nodes, self.widths, strict=True)
            if not isinstance(node.operation, Constant)
        )

    @property
    def estimated_luts(self) -> int:
        """One LUT per bit of an adder, clamp or selection, and per 64 entries of a table's bit: an estimate from the graph, not
        the result of synthesis."""
        nodes = zip(self.graph.nodes, self.widths, strict=True)
        return sum(widths[0] * _luts(node.operation) for node, widths in nodes if widths and is_logic(node.operation))


def is_logic(operation: Operation) -> bool:
    """Return whether an operation needs logic and not only wires."""
    return isinstance(operation, Add | Clamp | Select | Lookup) or (
        isinstance(operation, Drop) and operation.rounding is not Rounding.TRN
    )


def _luts(operation: Operation) -> int:
    """LUTs for one bit of the operation's result."""
    return -(-len(operation.values) // (1 << LUT_INPUTS)) if isinstance(operation, Lookup) else 1


def schedule(graph: AdderGraph, output_widths: Sequence[int], stage_ns: float = STAGE_NS) -> Schedule:
    """Schedule every node as early as possible, and all outputs in the last stage.

    Args:
        output_widths: bits of each output.
        stage_ns: the most estimated ns between two registers; an operation that takes longer gets a stage of its own.
    """
    readers = Counter(i for node in graph.nodes for i in operands(node.operation)) + Counter(graph.outputs)
    outputs, stages, arrivals, loads = frozenset(graph.outputs), list[int](), list[Arrival](), fan_outs(graph)
    for i, node in enumerate(graph.nodes):
        read = operands(node.operation)
        stage = max((stages[k] for k in read), default=0)
        given = [after_wire(arrivals[k] if stages[k] == stage else REGISTERED, loads[k]) for k in read]
        here = arrival(graph, i, given)
        # after an output there is a wire to the next register, which is outside this module
        least_ps = here.ps + FF_SETUP + (WIRE if i in outputs else 0)
        if least_ps > 1000 * stage_ns and any(stages[k] == stage and arrivals[k] != REGISTERED for k in read):
            stage, here = stage + 1, arrival(graph, i, [after_wire(REGISTERED, loads[k]) for k in read])
        stages.append(stage)
        arrivals.append(here if readers[i] == 1 else here.alone)
    widths = _widths(graph, tuple(stages), output_widths)
    return Schedule(graph, tuple(stages), widths, tuple(here.ps for here in arrivals))


def _widths(graph: AdderGraph, stages: tuple[int, ...], output_widths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The low bits of each node that are read in each stage, found from the outputs backwards."""
    last = max(stages[i] for i in graph.outputs)
    reads: list[dict[int, int]] = [{} for _ in graph.nodes]
    for i, width in zip(graph.outputs, output_widths, strict=True):
        _read(reads[i], last, min(graph.nodes[i].width, width))
    for i in reversed(range(len(graph.nodes))):
        if not reads[i]:
            continue
        for operand, bits in _needs(graph, i, max(reads[i].values())):
            _read(reads[operand], stages[i], max(min(graph.nodes[operand].width, bits), 1))
    return tuple(tuple(_per_stage(read, stage)) for read, stage in zip(reads, stages, strict=True))


def _read(read: dict[int, int], stage: int, bits: int) -> None:
    read[stage] = max(read.get(stage, 0), bits)


def _per_stage(read: dict[int, int], first: int) -> Iterator[int]:
    for stage in range(first, max(read, default=first - 1) + 1):
        yield max(bits for at, bits in read.items() if at >= stage)


def _needs(graph: AdderGraph, i: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield (operand, number of its low bits that matter) for the `width` low bits of node i: carries only go up."""
    match graph.nodes[i].operation:
        case Add(a, b, shift_a, shift_b):
            yield a, width - shift_a
            yield b, width - shift_b
        case Shift(a, bits):
            yield a, width - bits
        case Drop(a, bits, rounding):
            yield a, graph.nodes[a].width if rounding in BY_SIGN else width + bits
        case Wrap(a, bits):
            yield a, min(width, bits)
        case Clamp(a):
            yield a, graph.nodes[a].width
        case Lookup(a, values):
            yield a, (len(values) - 1).bit_length()
        case Select(a, b, bit):
            yield a, width
            yield b, bit + 1
