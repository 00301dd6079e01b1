# SPDX-License-Identifier: Apache-2.0
"""How much memory Verilator and g++ need for a design, estimated from its RTL before they start.

Verilator holds every statement. For each element of a row that arrives or leaves in one beat, it also holds a vector as wide as
the row, so its memory grows with the square of the size of an unrolled image. g++ compiles pieces of one size, but all of them
include the declarations of the whole design. `python -m bench.tool_memory` prints Verilator's measured memory next to the
estimate, and a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypersonic.hls.bounded.memory import VARIABLE, in_words
from hypersonic.hls.bounded.tool import WAY_OUT
from hypersonic.hls.errors import ToolMemoryError

#: bytes that Verilator takes for an empty design, per line of RTL, and per element times bit of a row that arrives or leaves
START, LINE, ARRIVING, LEAVING = 40e6, 1600.0, 0.036, 1.35

#: bytes that Verilator takes for an element that a kernel converts
CONVERTER = 140e3

#: bytes that g++ takes for an empty design, and per line of RTL: 290 to 430 MB were measured for 1,500 to 55,000 lines
COMPILER, COMPILER_LINE = 320e6, 2400.0

#: the most by which a measured figure of Verilator differs from its estimate, up or down
FACTOR = 2.0


@dataclass(frozen=True)
class Side:
    """A side of a design.

    Attributes:
        elements, bits: what arrives or leaves in one beat, together.
    """

    elements: int
    bits: int


@dataclass(frozen=True)
class Share:
    """A layer in a design.

    Attributes:
        kind: its class.
        nodes: operations of the RTL that are its own.
    """

    layer: str
    kind: str
    nodes: int


@dataclass(frozen=True)
class Rtl:
    """The size of a design.

    Attributes:
        lines: of SystemVerilog.
        layers: those of an unrolled network, () where they are not known.
        converters: elements that a kernel converts at once, from or to what is on the wire.
    """

    name: str
    lines: int
    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    layers: tuple[Share, ...] = ()
    converters: int = 0

    @property
    def verilator_bytes(self) -> int:
        """The memory of Verilator."""
        squares = ARRIVING * _squares(self.inputs) + LEAVING * _squares(self.outputs)
        return int(START + LINE * self.lines + squares + CONVERTER * self.converters)

    @property
    def compiler_bytes(self) -> int:
        """The memory of each g++ process. Verilator keeps its own memory meanwhile."""
        return int(COMPILER + COMPILER_LINE * self.lines)

    @property
    def needed_bytes(self) -> int:
        """The memory of a build that compiles one file at a time."""
        return self.verilator_bytes + self.compiler_bytes


def _squares(sides: Sequence[Side]) -> int:
    return sum(side.elements * side.bits for side in sides)


def check_need(rtl: Rtl, limit: int | None) -> None:
    """Raise ToolMemoryError if the estimate is above the limit.

    Args:
        limit: bytes; None: there is no limit.
    """
    if limit is None or rtl.needed_bytes <= limit:
        return
    bits = [sum(side.bits for side in sides) for sides in (rtl.inputs, rtl.outputs)]
    raise ToolMemoryError(
        f"Verilator and g++ would need about {in_words(rtl.needed_bytes)} for {rtl.name}, which has {rtl.lines:,} lines of RTL "
        f"and takes {bits[0]:,} bits at once and gives {bits[1]:,}{_largest(rtl.layers)}; the limit is {in_words(limit)} "
        f"({VARIABLE} or --memory); {WAY_OUT}"
    )


def _largest(layers: Sequence[Share]) -> str:
    if not layers:
        return ""
    most = max(layers, key=lambda share: share.nodes)
    part = most.nodes / max(sum(share.nodes for share in layers), 1)
    return f"; layer {most.layer} ({most.kind}) is the largest, {part:.0%} of the network's operations"


def jobs(rtl: Rtl, limit: int | None, processors: int) -> int:
    """Return how many compilers can run side by side within the limit, at least one."""
    if limit is None:
        return processors
    return max(1, min(processors, (limit - rtl.verilator_bytes) // rtl.compiler_bytes))
