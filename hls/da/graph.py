# SPDX-License-Identifier: Apache-2.0
"""A network as a graph of adders: plain integers with known ranges, without a clock.

Every node is a signed integer whose range is known exactly or by bounds, so its width is known. Binary points are not part of
the graph (see hls/da/lower.py). Nodes are in topological order, and equal nodes are shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Rounding, shift_right


@dataclass(frozen=True)
class Input:
    """Element `index` of a row."""

    index: int


@dataclass(frozen=True)
class Constant:
    """The same integer for every row."""

    value: int


@dataclass(frozen=True)
class Add:
    """(a << shift_a) + (b << shift_b), or their difference with `subtract`.

    Attributes:
        a, b: nodes.
    """

    a: int
    b: int
    shift_a: int = 0
    shift_b: int = 0
    subtract: bool = False


@dataclass(frozen=True)
class Shift:
    """a << bits, which needs wires only."""

    a: int
    bits: int


@dataclass(frozen=True)
class Drop:
    """a * 2**-bits, rounded to an integer."""

    a: int
    bits: int
    rounding: Rounding


@dataclass(frozen=True)
class Wrap:
    """The `width` lowest bits of a, read as signed or unsigned."""

    a: int
    width: int
    signed: bool


@dataclass(frozen=True)
class Clamp:
    """a, limited to low..high; None for a bound that `a` cannot exceed."""

    a: int
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Select:
    """a if bit `bit` of b is 1, otherwise 0. The top bit of b's width is its sign."""

    a: int
    b: int
    bit: int


@dataclass(frozen=True)
class Lookup:
    """values[a]: a table of constants."""

    a: int
    values: tuple[int, ...]


Operation = Input | Constant | Add | Shift | Drop | Wrap | Clamp | Select | Lookup


@dataclass(frozen=True)
class Node:
    """An operation and its range: the node's value is low to high for every row."""

    operation: Operation
    low: int
    high: int

    @property
    def width(self) -> int:
        """Bits of two's complement, always with a sign bit."""
        return 1 + max(self.high.bit_length(), (-self.low - 1).bit_length() if self.low < 0 else 0)


def operands(operation: Operation) -> tuple[int, ...]:
    """Return the indices of the nodes that an operation reads."""
    match operation:
        case Add(a, b) | Select(a, b):
            return (a, b)
        case Shift(a) | Drop(a) | Wrap(a) | Clamp(a) | Lookup(a):
            return (a,)
        case _:
            return ()


@dataclass
class AdderGraph:
    """A graph that is built node by node from the inputs. Methods that add a node return its index, or that of an equal node.

    Attributes:
        outputs: indices of nodes; empty until `finished`.
    """

    nodes: list[Node] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    _index: dict[Operation, int] = field(default_factory=dict)

    def input(self, index: int, low: int, high: int) -> int:
        """Add element `index` of a row, whose values are low to high."""
        return self._node(Input(index), low, high)

    def constant(self, value: int) -> int:
        """Add a constant."""
        return self._node(Constant(value), value, value)

    def range(self, a: int) -> tuple[int, int]:
        """Return the smallest and largest value of node `a`."""
        return self.nodes[a].low, self.nodes[a].high

    def value(self, a: int) -> int | None:
        """Return the value of node `a` if it is the same for every row, otherwise None."""
        low, high = self.range(a)
        return low if low == high else None

    def add(self, a: int, b: int, shift_a: int = 0, shift_b: int = 0, *, subtract: bool = False) -> int:
        """Add (a << shift_a) + (b << shift_b), or their difference with `subtract`."""
        if self.value(b) == 0:
            return self.shift(a, shift_a)
        if self.value(a) == 0 and not subtract:
            return self.shift(b, shift_b)
        (a_low, a_high), (b_low, b_high) = self.range(a), self.range(b)
        if subtract:
            b_low, b_high = -b_high, -b_low
        low, high = (a_low << shift_a) + (b_low << shift_b), (a_high << shift_a) + (b_high << shift_b)
        return self._node(Add(a, b, shift_a, shift_b, subtract), low, high)

    def shift(self, a: int, bits: int) -> int:
        """Add a << bits.

        Args:
            bits: 0 or more.
        """
        if bits == 0:
            return a
        low, high = self.range(a)
        return self._node(Shift(a, bits), low << bits, high << bits)

    def drop(self, a: int, bits: int, rounding: Rounding) -> int:
        """Add a * 2**-bits, rounded; negative `bits` shift left. Rounding is monotone: a range's ends map to the new ends."""
        if bits <= 0:
            return self.shift(a, -bits)
        low, high = self.range(a)
        return self._node(Drop(a, bits, rounding), shift_right(low, bits, rounding), shift_right(high, bits, rounding))

    def wrap(self, a: int, width: int, *, signed: bool) -> int:
        """Add the `width` lowest bits of a, read as signed or unsigned; 0 if width is not positive."""
        if width <= 0:
            return self.constant(0)
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        a_low, a_high = self.range(a)
        if low <= a_low and a_high <= high:
            return a
        return self._node(Wrap(a, width, signed), low, high)

    def clamp(self, a: int, low: int | None, high: int | None) -> int:
        """Add a, limited to low..high. None: no such bound."""
        a_low, a_high = self.range(a)
        low = low if low is not None and a_low < low else None
        high = high if high is not None and a_high > high else None
        if low is None and high is None:
            return a
        ends = [_clamped(end, low, high) for end in (a_low, a_high)]
        return self._node(Clamp(a, low, high), ends[0], ends[1])

    def select(self, a: int, b: int, bit: int) -> int:
        """Add a if bit `bit` of b, in two's complement, is 1, otherwise 0.

        Args:
            bit: below b's width.
        """
        if (value := self.value(b)) is not None:
            return a if value >> bit & 1 else self.constant(0)
        if bit == self.nodes[b].width - 1 and (self.nodes[b].low >= 0 or self.nodes[b].high < 0):
            return self.constant(0) if self.nodes[b].low >= 0 else a  # its sign is known
        low, high = self.range(a)
        return self._node(Select(a, b, bit), min(low, 0), max(high, 0))

    def lookup(self, a: int, values: tuple[int, ...]) -> int:
        """Add values[a].

        Args:
            a: a node whose range is inside 0 to len(values) - 1.
        """
        low, high = self.range(a)
        used = values[low : high + 1]
        return self._node(Lookup(a, values), min(used), max(used))

    def narrow(self, a: int, low: int, high: int) -> None:
        """Narrow a node's range to low..high, when more is known than its operands' ranges. Only before anything reads it."""
        node = self.nodes[a]
        self.nodes[a] = Node(node.operation, max(node.low, low), min(node.high, high))

    def _node(self, operation: Operation, low: int, high: int) -> int:
        if low == high and not isinstance(operation, Constant):
            return self.constant(low)
        if operation not in self._index:
            self._index[operation] = len(self.nodes)
            self.nodes.append(Node(operation, low, high))
        return self._index[operation]

    def finished(self, outputs: tuple[int, ...]) -> AdderGraph:
        """Return the graph with these outputs, and only the inputs and the nodes that the outputs need, renumbered in order."""
        live = set(outputs) | {i for i, node in enumerate(self.nodes) if isinstance(node.operation, Input)}
        for i in reversed(range(len(self.nodes))):
            if i in live:
                live.update(operands(self.nodes[i].operation))
        kept = sorted(live)
        place = {old: new for new, old in enumerate(kept)}
        nodes = [Node(_moved(self.nodes[i].operation, place), self.nodes[i].low, self.nodes[i].high) for i in kept]
        return AdderGraph(nodes, tuple(place[i] for i in outputs))

    def evaluate(self, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute rows in exact integers of any size.

        Args:
            x_raw: (rows, n_in) int64 -> the outputs (rows, n_out) int64.
        """
        return self.evaluate_wide(x_raw).astype(np.int64)

    def evaluate_wide(self, x_raw: NDArray[np.int64]) -> NDArray[Any]:
        """As evaluate(), for outputs of any width: Python integers (rows, n_out)."""
        x = x_raw.astype(object)
        values: list[NDArray[Any]] = []
        for node in self.nodes:
            values.append(_evaluate(node.operation, x, values))
        return np.stack([values[i] for i in self.outputs], axis=1)


def _clamped(value: int, low: int | None, high: int | None) -> int:
    floored = value if low is None else max(value, low)
    return floored if high is None else min(floored, high)


def _moved(operation: Operation, place: dict[int, int]) -> Operation:  # noqa: PLR0911 - one for each operation
    match operation:
        case Add(a, b, shift_a, shift_b, subtract):
            return Add(place[a], place[b], shift_a, shift_b, subtract)
        case Shift(a, bits):
            return Shift(place[a], bits)
        case Drop(a, bits, rounding):
            return Drop(place[a], bits, rounding)
        case Wrap(a, width, signed):
            return Wrap(place[a], width, signed)
        case Clamp(a, low, high):
            return Clamp(place[a], low, high)
        case Select(a, b, bit):
            return Select(place[a], place[b], bit)
        case Lookup(a, values):
            return Lookup(place[a], values)
        case _:
            return operation


def _evaluate(operation: Operation, x: NDArray[Any], values: list[NDArray[Any]]) -> Any:
    match operation:
        case Input(index):
            y: Any = x[:, index]
        case Constant(value):
            y = np.full(len(x), value, dtype=object)
        case Add(a, b, shift_a, shift_b, subtract):
            right = values[b] << shift_b
            y = (values[a] << shift_a) + (-right if subtract else right)
        case Shift(a, bits):
            y = values[a] << bits
        case Drop(a, bits, rounding):
            y = np.array([shift_right(value, bits, rounding) for value in values[a]], dtype=object)
        case Wrap(a, width, signed):
            bias = 1 << (width - 1) if signed else 0
            y = (values[a] + bias) % (1 << width) - bias
        case Clamp(a, low, high):
            y = np.array([_clamped(value, low, high) for value in values[a]], dtype=object)
        case Select(a, b, bit):
            y = values[a] * (values[b] >> bit & 1)
        case Lookup(a, table):
            y = np.array([table[value] for value in values[a]], dtype=object)
    return y
