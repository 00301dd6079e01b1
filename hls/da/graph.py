# SPDX-License-Identifier: Apache-2.0
"""A network as a graph of adders: plain integers, exact ranges, no notion of a clock.

Every node is a signed integer whose range is known exactly or bounded from above, so its width is known; a fraction is
the reader's affair (see hls/da/lower.py). Nodes stand in topological order and equal nodes are one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Rounding, shift_right


@dataclass(frozen=True)
class Input:
    """The element `index` of a row."""

    index: int


@dataclass(frozen=True)
class Constant:
    value: int


@dataclass(frozen=True)
class Add:
    """(a << shift_a) + (b << shift_b), or minus."""

    a: int
    b: int
    shift_a: int = 0
    shift_b: int = 0
    subtract: bool = False


@dataclass(frozen=True)
class Shift:
    """a << bits: wires only."""

    a: int
    bits: int


@dataclass(frozen=True)
class Drop:
    """a without its `bits` lowest bits, by the rounding mode."""

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
    """a, but not below low nor above high; a bound that `a` cannot pass is None."""

    a: int
    low: int | None
    high: int | None


Operation = Input | Constant | Add | Shift | Drop | Wrap | Clamp


@dataclass(frozen=True)
class Node:
    """low, high: no value of the node lies outside, whatever the row."""

    operation: Operation
    low: int
    high: int

    @property
    def width(self) -> int:
        """Bits of two's complement, the sign bit always among them."""
        return 1 + max(self.high.bit_length(), (-self.low - 1).bit_length() if self.low < 0 else 0)


def operands(operation: Operation) -> tuple[int, ...]:
    """The nodes an operation reads."""
    match operation:
        case Add(a, b):
            return (a, b)
        case Shift(a) | Drop(a) | Wrap(a) | Clamp(a):
            return (a,)
        case _:
            return ()


@dataclass
class AdderGraph:
    """Grown node by node from the inputs; each method returns a node's index. outputs: set when it is finished."""

    nodes: list[Node] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    _index: dict[Operation, int] = field(default_factory=dict)

    def input(self, index: int, low: int, high: int) -> int:
        return self._node(Input(index), low, high)

    def constant(self, value: int) -> int:
        return self._node(Constant(value), value, value)

    def range(self, a: int) -> tuple[int, int]:
        return self.nodes[a].low, self.nodes[a].high

    def value(self, a: int) -> int | None:
        """The node's value when it is the same for every row."""
        low, high = self.range(a)
        return low if low == high else None

    def add(self, a: int, b: int, shift_a: int = 0, shift_b: int = 0, *, subtract: bool = False) -> int:
        """(a << shift_a) + (b << shift_b), or minus with `subtract`."""
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
        if bits == 0:
            return a
        low, high = self.range(a)
        return self._node(Shift(a, bits), low << bits, high << bits)

    def drop(self, a: int, bits: int, rounding: Rounding) -> int:
        """a * 2**-bits, rounded; every rounding mode is monotone, so the ends of the range round to ends of the range."""
        if bits <= 0:
            return self.shift(a, -bits)
        low, high = self.range(a)
        return self._node(Drop(a, bits, rounding), shift_right(low, bits, rounding), shift_right(high, bits, rounding))

    def wrap(self, a: int, width: int, *, signed: bool) -> int:
        if width <= 0:
            return self.constant(0)
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        a_low, a_high = self.range(a)
        if low <= a_low and a_high <= high:
            return a
        return self._node(Wrap(a, width, signed), low, high)

    def clamp(self, a: int, low: int | None, high: int | None) -> int:
        a_low, a_high = self.range(a)
        low = low if low is not None and a_low < low else None
        high = high if high is not None and a_high > high else None
        if low is None and high is None:
            return a
        ends = [_clamped(end, low, high) for end in (a_low, a_high)]
        return self._node(Clamp(a, low, high), ends[0], ends[1])

    def narrow(self, a: int, low: int, high: int) -> None:
        """Tell what is known about a node beyond its operands' ranges; only before anything reads it."""
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
        """Only what the outputs need, and every input, renumbered in the same order."""
        live = set(outputs) | {i for i, node in enumerate(self.nodes) if isinstance(node.operation, Input)}
        for i in reversed(range(len(self.nodes))):
            if i in live:
                live.update(operands(self.nodes[i].operation))
        kept = sorted(live)
        place = {old: new for new, old in enumerate(kept)}
        nodes = [Node(_moved(self.nodes[i].operation, place), self.nodes[i].low, self.nodes[i].high) for i in kept]
        return AdderGraph(nodes, tuple(place[i] for i in outputs))

    def evaluate(self, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """x_raw: (rows, n_in) int64 -> the outputs (rows, n_out) int64, in exact integers of any size."""
        x = x_raw.astype(object)
        values: list[NDArray[Any]] = []
        for node in self.nodes:
            values.append(_evaluate(node.operation, x, values))
        return np.stack([values[i] for i in self.outputs], axis=1).astype(np.int64)


def _clamped(value: int, low: int | None, high: int | None) -> int:
    floored = value if low is None else max(value, low)
    return floored if high is None else min(floored, high)


def _moved(operation: Operation, place: dict[int, int]) -> Operation:
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
    return y
