# SPDX-License-Identifier: Apache-2.0
"""Finds groups of nodes that are one function, as exporters write it for an opset that has no operator of it.

A group becomes one node: Softsign (x / (1 + Abs(x))), Gelu (0.5 * x * (1 + Erf(x / sqrt(2))), or with Tanh), Silu
(x * Sigmoid(x)), Mish (x * Tanh(Softplus(x))), and LayerNormalization (of opsets below 17, from two ReduceMean).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hypersonic.hls.frontend.onnx.nodes import Array, attributes

Shapes = Mapping[str, tuple[int, ...]]


class _Reader:
    """Who makes each tensor of a graph, its shape, and which constants there are."""

    def __init__(self, nodes: Sequence[Any], constants: Mapping[str, Array], shapes: Shapes) -> None:
        self.shapes = shapes
        self.makers = {tensor: node for node in nodes for tensor in node.output}
        self.constants = constants

    def made_by(self, tensor: str, kind: str) -> Any:
        """The node of an operator that makes a tensor, or None."""
        node = self.makers.get(tensor)
        return node if node is not None and node.op_type == kind else None

    def number(self, tensor: str) -> float | None:
        """The value of a constant that holds one number, or None."""
        numbers = self.constants.get(tensor)
        return float(numbers.reshape(-1)[0]) if numbers is not None and numbers.size == 1 else None

    def factors(self, tensor: str) -> Iterator[tuple[str, float]]:
        """(another tensor, factor) whose product a tensor is, through Mul and Div by numbers; first the tensor itself."""
        factor = 1.0
        while True:
            yield tensor, factor
            node = self.makers.get(tensor)
            if node is None or node.op_type not in ("Mul", "Div"):
                return
            a, b = node.input
            numbers = self.number(a), self.number(b)
            if numbers[1] is not None and numbers[1] != 0:
                tensor, factor = a, factor * (numbers[1] if node.op_type == "Mul" else 1 / numbers[1])
            elif numbers[0] is not None and node.op_type == "Mul":
                tensor, factor = b, factor * numbers[0]
            else:
                return

    def plus(self, tensor: str, number: float) -> str:
        """The tensor to which a number is added, or ""."""
        node = self.made_by(tensor, "Add")
        for a, b in ((0, 1), (1, 0)):
            if node is not None and (found := self.number(node.input[b])) is not None and abs(found - number) < 1e-6:
                return str(node.input[a])
        return ""


def fused(nodes: Sequence[Any], constants: Mapping[str, Array], shapes: Shapes, kept: frozenset[str]) -> tuple[Any, ...]:
    """Return the nodes with each group replaced by one node, which has the name and the result of the group's last one.

    Args:
        constants: the constant tensors, by name.
        shapes: of all tensors.
        kept: tensors that must stay, the outputs.
    """
    reader = _Reader(nodes, constants, shapes)
    changed = []
    for node in nodes:
        found = next(filter(None, (match(reader, node) for match in _MATCHES)), None)
        changed.append(_made(node, *found) if found else node)
    return _read(changed, kept)


def _made(node: Any, kind: str, inputs: list[str], options: dict[str, Any]) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, list(node.output), node.name or node.output[0], **options)


def _read(nodes: list[Any], kept: frozenset[str]) -> tuple[Any, ...]:
    """The nodes whose results are read, by others or as outputs."""
    left, wanted = list[Any](), set(kept)
    for node in reversed(nodes):
        if wanted & set(node.output):
            left.append(node)
            wanted |= set(node.input)
    return tuple(left[::-1])


_Found = tuple[str, list[str], dict[str, Any]] | None


def _gated(reader: _Reader, node: Any) -> _Found:
    """x * Sigmoid(x), or x * Tanh(Softplus(x))."""
    if node.op_type != "Mul":
        return None
    for x, gate in (node.input, node.input[::-1]):
        sigmoid, tanh = reader.made_by(gate, "Sigmoid"), reader.made_by(gate, "Tanh")
        if sigmoid is not None and sigmoid.input[0] == x:
            return "Silu", [x], {}
        softplus = reader.made_by(tanh.input[0], "Softplus") if tanh is not None else None
        if softplus is not None and softplus.input[0] == x:
            return "Mish", [x], {}
    return None


def _softsign(reader: _Reader, node: Any) -> _Found:
    """x / (1 + Abs(x))."""
    if node.op_type != "Div":
        return None
    x = str(node.input[0])
    size = reader.made_by(reader.plus(node.input[1], 1.0), "Abs")
    return ("Softsign", [x], {}) if size is not None and size.input[0] == x else None


def _gelu(reader: _Reader, node: Any) -> _Found:
    """The product of x, 0.5 and 1 + Erf(x / sqrt(2)), in any order, or with Tanh(0.798 * (x + 0.0447 * x ** 3)) for Erf."""
    if node.op_type != "Mul":
        return None
    for product, factor in reader.factors(node.output[0]):
        inner = reader.makers.get(product)
        if inner is None or inner.op_type != "Mul":
            continue
        for left, right in (inner.input, inner.input[::-1]):
            for (x, own), (gate, other) in ((a, b) for a in reader.factors(left) for b in reader.factors(right)):
                if abs(factor * own * other - 0.5) < 1e-5 and _is_gate(reader, reader.plus(gate, 1.0), x):
                    return "Gelu", [x], {}
    return None


def _is_gate(reader: _Reader, tensor: str, x: str) -> bool:
    erf, tanh = reader.made_by(tensor, "Erf"), reader.made_by(tensor, "Tanh")
    if erf is not None:
        return any(inner == x and abs(factor - np.sqrt(0.5)) < 1e-4 for inner, factor in reader.factors(erf.input[0]))
    return tanh is not None and any(
        abs(factor - np.sqrt(2 / np.pi)) < 1e-3 and _is_cubic(reader, inner, x)
        for inner, factor in reader.factors(tanh.input[0])
    )


def _is_cubic(reader: _Reader, tensor: str, x: str) -> bool:
    """Whether a tensor is x + 0.044715 * x ** 3."""
    node = reader.made_by(tensor, "Add")
    if node is None or x not in node.input:
        return False
    (cube,) = [one for one in node.input if one != x] or [x]
    return any(
        abs(factor - 0.044715) < 1e-5 and (power := reader.made_by(inner, "Pow")) is not None
        and power.input[0] == x and reader.number(power.input[1]) == 3
        for inner, factor in reader.factors(cube)
    )  # fmt: skip


def _layer_normalization(reader: _Reader, node: Any) -> _Found:
    """(x - mean) / sqrt(mean of (x - mean) ** 2 + epsilon), with a factor and a shift behind it if there are constants.

    The group ends at the Add of the shift, at the Mul of the factor, or at the quotient.
    """
    shift, factor, quotient = "", "", node
    if quotient.op_type == "Add" and (part := _constant_and(reader, quotient)):
        shift, quotient = part[0], reader.makers.get(part[1])
        if quotient is None or quotient.op_type != "Mul":
            return None
    if quotient.op_type == "Mul" and (part := _constant_and(reader, quotient)):
        factor, quotient = part[0], reader.makers.get(part[1])
    if quotient is None or quotient.op_type != "Div":
        return None
    return _quotient(reader, quotient, factor, shift)


def _quotient(reader: _Reader, quotient: Any, factor: str, shift: str) -> _Found:
    centred, root = reader.made_by(quotient.input[0], "Sub"), reader.made_by(quotient.input[1], "Sqrt")
    added = reader.made_by(root.input[0], "Add") if root is not None else None
    if centred is None or added is None or not (part := _constant_and(reader, added)):
        return None
    epsilon, variance = reader.number(part[0]), _mean_along_last(reader, part[1])
    x, mean = centred.input
    if epsilon is None or _mean_along_last(reader, mean) != x or not variance:
        return None
    square = reader.makers.get(variance)
    squared = square is not None and (
        (square.op_type == "Pow" and reader.number(square.input[1]) == 2)
        or (square.op_type == "Mul" and square.input[0] == square.input[1])
    )
    if square is None or not squared or not _same_difference(reader, square.input[0], centred):
        return None
    inputs = [x, factor, shift] if shift else [x, factor] if factor else [x]
    return "LayerNormalization", inputs, {"axis": -1, "epsilon": epsilon}


def _same_difference(reader: _Reader, tensor: str, centred: Any) -> bool:
    node = reader.made_by(tensor, "Sub")
    return node is not None and list(node.input) == list(centred.input)


def _constant_and(reader: _Reader, node: Any) -> tuple[str, str] | None:
    """(the constant, the other tensor) that a node with one constant reads."""
    a, b = node.input
    if (a in reader.constants) == (b in reader.constants):
        return None
    return (a, b) if a in reader.constants else (b, a)


def _mean_along_last(reader: _Reader, tensor: str) -> str:
    """The tensor whose mean along the last axis a tensor is, with that axis kept; "" otherwise."""
    node = reader.made_by(tensor, "ReduceMean")
    if node is None:
        return ""
    options = attributes(node)
    given = reader.constants.get(node.input[1]) if len(node.input) > 1 else None
    axes = options.get("axes", []) if given is None else given.reshape(-1).tolist()
    rank = len(reader.shapes[node.input[0]])
    return str(node.input[0]) if [axis % rank for axis in axes] == [rank - 1] and options.get("keepdims", 1) else ""


_MATCHES: tuple[Callable[[_Reader, Any], _Found], ...] = (_gated, _softsign, _gelu, _layer_normalization)
