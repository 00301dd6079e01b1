# SPDX-License-Identifier: Apache-2.0
"""Rewrites a graph that moves the rows, so that they are the first dimension everywhere.

ONNX's LSTM and GRU have the steps as the first dimension and the rows as the second. torch's attention transposes its tensors
so too, and joins the rows with the heads. The dimension of the rows is left out wherever it is, and put in front. In a graph
that is read for one row its size is 1, so that this changes no number's position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.frontend.onnx.nodes import PASSING, Array, attributes

Shape = tuple[int, ...]

#: operators that compute each number from the numbers at its position
ELEMENTWISE = (
    *PASSING, "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Selu", "Add", "Sum", "Sub", "Mul", "Max",
    "Min", "Div", "Clip", "Elu", "LeakyRelu", "ThresholdedRelu", "PRelu", "Neg", "Celu", "HardSigmoid", "HardSwish", "Gelu",
    "Silu", "Mish",
)  # fmt: skip
#: operators that exporters build other functions from (patterns.py)
_PARTS = ("Abs", "Erf", "Exp", "Log", "Pow", "Reciprocal", "Sqrt")
#: operators that keep the numbers in their order
_RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
#: recurrent layers
KINDS = ("LSTM", "GRU")
#: attribute of a recurrent layer whose rows are in front: 1 for the states of all steps, 0 for the last ones
ALL_STEPS = "hypersonic_all_steps"

#: axes that the file may leave out
_DEFAULTS = {"Gather": 0, "Split": 0, "LayerNormalization": -1}


class _MixedError(Exception):
    """A node does not compute each row separately, or it is not known whether it does."""


@dataclass(frozen=True)
class _Graph:
    """The graph, rewritten up to the current node.

    Attributes:
        batch: the rows of one run, 1 where the file leaves them open.
        shapes: of each tensor in the file.
        used: the tensors that are read, or that the model answers.
        constants: grows with those that the new nodes read.
        left_out: the dimensions of a computed tensor that are left out: that of the rows, and a layer's only direction.
        added: shapes of tensors that the file does not have, with the rows in front.
    """

    batch: int
    shapes: Mapping[str, Shape]
    used: frozenset[str]
    constants: dict[str, Array]
    left_out: dict[str, Shape]
    added: dict[str, Shape] = field(default_factory=dict)

    def shape(self, tensor: str) -> Shape:
        """The shape of a computed tensor with the rows in front."""
        gone = self.left_out[tensor]
        return (self.batch, *(size for axis, size in enumerate(self.shapes[tensor]) if axis not in gone))

    def axis(self, tensor: str, axis: int) -> int:
        """The place in `shape` of a dimension in the file. Raises _MixedError if it is left out."""
        place, gone = axis % len(self.shapes[tensor]), self.left_out[tensor]
        _expect(place not in gone)
        return place + 1 - sum(one < place for one in gone)

    def add(self, numbers: Array) -> str:
        """Add a constant; return its name."""
        name = next(name for each in count() if (name := f"hypersonic_rows_{each}") not in self.constants)
        self.constants[name] = numbers
        return name


def moves_rows(nodes: Sequence[Any], shapes: Mapping[str, Shape], batch: int) -> bool:
    """Return whether a node puts the rows elsewhere than in front.

    Args:
        shapes: of all tensors.
        batch: the rows that they have.
    """
    return any(
        (node.op_type == "Transpose" and _order(node, 2)[0] != 0)
        or node.op_type in KINDS
        or (node.op_type in _RESHAPING and shapes.get(node.output[0], (batch,))[:1] != (batch,))
        for node in nodes
    )


def rows_first(
    nodes: Sequence[Any],
    constants: Mapping[str, Array],
    shapes: Mapping[str, Shape],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> tuple[tuple[Any, ...], dict[str, Array], dict[str, Shape]] | None:
    """Return nodes, constants and shapes of the graph with the rows in front, or None if that cannot be done.

    A recurrent layer becomes one that reads (rows, steps, numbers), with the attribute ALL_STEPS, and gives the states of its
    directions one after the other.

    Args:
        shapes: of all tensors.
        inputs, outputs: of the model; theirs have the rows in front already.
    """
    used = frozenset([*outputs, *(tensor for node in nodes for tensor in node.input)])
    graph = _Graph(shapes[inputs[0]][0], shapes, used, dict(constants), dict.fromkeys(inputs, (0,)))
    try:
        changed = [made for node in nodes for made in _changed(graph, node)]
        computed = {tensor: graph.shape(tensor) for tensor in graph.left_out}
    except (_MixedError, KeyError, ValueError):  # a shape is unknown, or shapes do not go together
        return None
    if any(computed.get(output) != shapes[output] for output in outputs):
        return None
    return tuple(changed), graph.constants, {**shapes, **computed, **graph.added}


def _changed(graph: _Graph, node: Any) -> list[Any]:
    """The nodes that replace a node. Raises _MixedError."""
    computed = [tensor for tensor in node.input if tensor in graph.left_out]
    results = [tensor for tensor in node.output if tensor in graph.used]
    if node.op_type in KINDS:
        return _recurrent(graph, node, results)
    for tensor in results:
        graph.left_out[tensor] = _left_out(graph, node, computed, graph.shapes[tensor])
    if all(graph.left_out[tensor] == (0,) for tensor in (*computed, *results)) and node.op_type != "Transpose":
        return [node]
    _expect(node.op_type in _CHANGES)
    return [_CHANGES[node.op_type](graph, node)] if results else []


def _left_out(graph: _Graph, node: Any, computed: list[str], made: Shape) -> Shape:
    """The dimensions that are left out of a node's result: those of its input if they are kept, else the first of size 1."""
    source = computed[0]
    before, sizes = graph.left_out[source], graph.shapes[source]
    if node.op_type == "Transpose":
        order = _order(node, len(made))
        return tuple(sorted(order.index(axis) for axis in before))
    kept = node.op_type not in _RESHAPING and len(sizes) == len(made) and all(made[axis] == sizes[axis] for axis in before)
    if before and (kept or (before == (0,) and made[:1] == (graph.batch,))):
        return before
    if graph.batch > 1:
        return _moved(graph, node, before)
    return (made.index(1),) if 1 in made[:-1] else ()


def _moved(graph: _Graph, node: Any, before: Shape) -> Shape:
    """The left-out dimensions after a Squeeze, which are known for any number of rows."""
    _expect(node.op_type == "Squeeze" and len(before) > 0)
    gone = [int(axis) % len(graph.shapes[node.input[0]]) for axis in np.reshape(_axes(graph, node, 1), -1)]
    left = [axis for axis in before if axis not in gone]
    return tuple(axis - sum(one < axis for one in gone) for axis in left)


def _recurrent(graph: _Graph, node: Any, results: list[str]) -> list[Any]:
    """A layer for each result that is read: all states, (steps, directions, rows, units), or the last."""
    from onnx import helper

    source, (states, last, cell) = node.input[0], [*node.output, "", "", ""][:3]
    sizes = graph.shapes[source]
    _expect(cell not in results and sizes[1] == graph.batch and graph.shape(source) == (graph.batch, sizes[0], sizes[2]))
    made, options, name = [], attributes(node), node.name or node.output[0]
    for tensor, every in ((states, 1), (last, 0)):
        if tensor not in results:
            continue
        shape = graph.shapes[tensor]
        graph.left_out[tensor] = tuple(axis for axis in (every, every + 1) if axis > every or shape[axis] == 1)
        row = graph.shape(tensor)
        wide = (graph.batch, *([row[1]] if every else []), prod(row[1 + every :]))
        own = tensor if wide == row else f"{tensor}_of_all"
        made.append(helper.make_node(node.op_type, [*node.input], [own], name, **options, **{ALL_STEPS: every}))
        if own != tensor:
            graph.added[own] = wide
            made.append(helper.make_node("Reshape", [own, graph.add(np.array([-1, *row[1:]], np.int64))], [tensor], name))
    return made


def _transposed(graph: _Graph, node: Any) -> Any:
    source, made = node.input[0], node.output[0]
    gone = graph.left_out[made]
    order = [axis for place, axis in enumerate(_order(node, len(graph.shapes[made]))) if place not in gone]
    return _made(node, perm=[0, *(graph.axis(source, axis) for axis in order)])


def _reshaped(graph: _Graph, node: Any) -> Any:
    from onnx import helper

    target = graph.add(np.array([-1, *graph.shape(node.output[0])[1:]], np.int64))
    return helper.make_node("Reshape", [node.input[0], target], [node.output[0]], node.name or node.output[0])


def _elementwise(graph: _Graph, node: Any) -> Any:
    """The same node; a constant loses the dimensions that its result has lost."""
    made = node.output[0]
    inputs = [_beside(graph, tensor, made) if tensor in graph.constants else tensor for tensor in node.input]
    shapes = [graph.shape(tensor) if tensor in graph.left_out else graph.constants[tensor].shape for tensor in inputs if tensor]
    _expect(np.broadcast_shapes(*shapes) == graph.shape(made))
    return _made(node, inputs)


def _beside(graph: _Graph, constant: str, tensor: str) -> str:
    numbers = graph.constants[constant]
    before = len(graph.shapes[tensor]) - numbers.ndim
    gone = tuple(axis - before for axis in graph.left_out[tensor] if axis >= before)
    return graph.add(numbers.squeeze(gone)) if gone else constant


def _product(graph: _Graph, node: Any) -> Any:
    """MatMul or Gemm; the dimensions that are multiplied stay."""
    made, (first, second) = node.output[0], node.input[:2]
    options = attributes(node)
    graph.axis(first, -1)
    _expect(not options.get("transA", 0))
    if second in graph.constants:
        weight = graph.constants[second]
        _expect(weight.ndim == 2)
        wanted: Shape = (*graph.shape(first)[:-1], weight.shape[0 if options.get("transB", 0) else 1])
    else:
        for tensor, axis in ((first, -2), (second, -2), (second, -1), (made, -2), (made, -1)):
            graph.axis(tensor, axis)
        a, b = graph.shape(first), graph.shape(second)
        wanted = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    _expect(wanted == graph.shape(made))
    return node


def _along(graph: _Graph, node: Any) -> Any:
    """An operator with one axis."""
    options, rank = attributes(node), len(graph.shapes[node.input[0]])
    axis = options.get("axis", _DEFAULTS[node.op_type]) if node.op_type in _DEFAULTS else options["axis"]
    read = [*node.input] if node.op_type == "Concat" else node.input[:1]
    if node.op_type != "Gather":  # which may take the dimension away
        made = [tensor for tensor in node.output if tensor in graph.used]
        _expect(len({graph.left_out[tensor] for tensor in (*read, *made)}) == 1)
    _expect(node.op_type != "LayerNormalization" or axis % rank == rank - 1)
    return _made(node, axis=graph.axis(node.input[0], axis))


def _along_some(graph: _Graph, node: Any) -> Any:
    """A reduction, or Slice: axes are an attribute or an input."""
    at, inputs = 3 if node.op_type == "Slice" else 1, [*node.input]
    places = [graph.axis(node.input[0], int(axis)) for axis in np.reshape(_axes(graph, node, at), -1)]
    if len(inputs) <= at:
        return _made(node, axes=places)
    inputs[at] = graph.add(np.array(places, np.int64))
    return _made(node, inputs)


def _axes(graph: _Graph, node: Any, at: int) -> Any:
    """The axes of a node, which are input `at` or an attribute."""
    return graph.constants[node.input[at]] if len(node.input) > at else attributes(node)["axes"]


def _expect(holds: bool) -> None:
    if not holds:
        raise _MixedError


def _order(node: Any, rank: int) -> list[int]:
    return [int(axis) for axis in attributes(node).get("perm", range(rank - 1, -1, -1))]


def _made(node: Any, inputs: Sequence[str] | None = None, **options: Any) -> Any:
    """The node with other inputs or attributes."""
    from onnx import helper

    read, name = [*(node.input if inputs is None else inputs)], node.name or node.output[0]
    return helper.make_node(node.op_type, read, [*node.output], name, domain=node.domain, **{**attributes(node), **options})


_CHANGES: dict[str, Callable[[_Graph, Any], Any]] = {
    **dict.fromkeys((*ELEMENTWISE, *_PARTS), _elementwise),
    **dict.fromkeys(_RESHAPING, _reshaped),
    **dict.fromkeys(("MatMul", "Gemm"), _product),
    **dict.fromkeys(("Softmax", "LayerNormalization", "Concat", "Split", "Gather"), _along),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "Slice"), _along_some),
    "Transpose": _transposed,
}
