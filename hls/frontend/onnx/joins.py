# SPDX-License-Identifier: Apache-2.0
"""Draws ONNX's Concat and merges of tensors, with constants among them. The functions are as those of layers.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.frontend.onnx.layers import Drawing, Value, affine, image, layers, of_a_row, plain, refuse, value
from hypersonic.hls.frontend.onnx.nodes import Array, attributes

MERGES = {"Add": "Add", "Sum": "Add", "Sub": "Subtract", "Mul": "Multiply", "Max": "Maximum", "Min": "Minimum"}


def concatenated(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Concat, pair by pair.

    A constant, such as the class token of a transformer, is added to zeros around a tensor.
    """
    rank = len(drawing.graph.shapes[node.output[0]])
    axis = int(attributes(node)["axis"]) % rank
    if axis == 0:
        raise refuse(name, "Concat along the rows", "expected another axis")
    parts = [drawing.values[tensor] for tensor in node.input if tensor not in drawing.graph.constants]
    if len(parts) < len(node.input):
        parts = _with_constants(drawing, node, name, axis)
    elif rank in (3, 4) and any(part.image for part in parts):
        parts = [image(part, f"{name}_{i}") for i, part in enumerate(parts)]
        axis = rank - 1 if axis == 1 else axis - 1
    else:
        parts = [plain(part, f"{name}_{i}") for i, part in enumerate(parts)]
    return Value(_in_pairs(parts, name, partial(layers().Concatenate, axis=axis)), parts[0].image)


def _with_constants(drawing: Drawing, node: Any, name: str, axis: int) -> list[Value]:
    """The computed tensors in the file's order, each with the constants behind it, and the first with those before it too."""
    numbers: list[list[Array]] = [[]]  # those before the first tensor, and those behind each
    parts: list[tuple[Value, str]] = []
    for i, tensor in enumerate(node.input):
        if tensor in drawing.graph.constants:
            constant = np.asarray(drawing.graph.constants[tensor], dtype=np.float64)
            numbers[-1].append(of_a_row(constant, constant.shape))
        else:
            parts.append((plain(drawing.values[tensor], f"{name}_{i}"), f"{name}_{i}_constants"))
            numbers.append([])
    before, *behind = numbers
    return [
        _around(drawing, called if len(parts) > 1 else name, part, axis - 1, [] if i else before, behind[i])
        for i, (part, called) in enumerate(parts)
    ]


def _around(drawing: Drawing, name: str, x: Value, axis: int, before: list[Array], behind: list[Array]) -> Value:
    """Draw constants before and behind a tensor, along an axis of a row."""
    if not (before or behind):
        return x
    shape = x.shape
    counts = tuple(sum(part.shape[axis] for part in parts) for parts in (before, behind))
    spread = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    tensor = layers().Reshape(spread, name=f"{name}_line")(x.tensor)
    tensor = layers().ZeroPadding2D(((0, 0), counts), name=f"{name}_zeros")(tensor)
    wide = (*shape[:axis], shape[axis] + sum(counts), *shape[axis + 1 :])
    tensor = layers().Reshape(wide, name=f"{name}_wide")(tensor)
    shift = np.concatenate([*before, np.zeros(shape), *behind], axis=axis)
    return affine(drawing, name, Value(tensor), np.ones(wide), shift)


def merged(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw an operator of MERGES: tensors pair by pair, and with a constant as a normalisation.

    Tensors of different shapes are broadcast as numpy does it, by the rewriting of the Keras model (keras/parts.py).
    """
    if len(node.input) == 2 and any(tensor in drawing.graph.constants for tensor in node.input):
        return _scaled(drawing, node, name)
    if node.op_type not in MERGES or any(tensor in drawing.graph.constants for tensor in node.input):
        raise refuse(name, f"{node.op_type} of {len(node.input)} inputs with a constant, or a quotient of tensors", "build it "
                     "from Add, Sub and Mul")  # fmt: skip
    parts = _alike(drawing, node, name)
    return Value(_in_pairs(parts, name, getattr(layers(), MERGES[node.op_type])), parts[0].image, parts[0].flat)


def _in_pairs(parts: list[Value], name: str, layer: Callable[..., Any]) -> Any:
    """Join tensors two at a time.

    Args:
        layer: makes a layer with a given name; the last one has the node's name.
    """
    joined = parts[0].tensor
    for i, part in enumerate(parts[1:], 1):
        joined = layer(name=name if i == len(parts) - 1 else f"{name}_{i}")([joined, part.tensor])
    return joined


def _alike(drawing: Drawing, node: Any, name: str) -> list[Value]:
    """The tensors of a merge in the same order of numbers, and with as many axes."""
    parts = [drawing.values[tensor] for tensor in node.input]
    shapes = [drawing.graph.shapes[tensor] for tensor in node.input]
    if len({len(shape) for shape in shapes}) > 1:
        merged_shapes = " and ".join(str(list(shape)) for shape in shapes)
        raise refuse(name, f"it merges the shapes {merged_shapes}, the rows of one with another axis of the other",
                     "give all as many axes")  # fmt: skip
    if any(part.image for part in parts):
        return [image(part, f"{name}_{i}") for i, part in enumerate(parts)]
    if all(part.flat for part in parts) and len({part.shape for part in parts}) == 1:
        return parts
    return [plain(part, f"{name}_{i}") for i, part in enumerate(parts)]


def _scaled(drawing: Drawing, node: Any, name: str) -> Value:
    """x * scale + shift, for an operator with a constant on either side."""
    second = node.input[1] in drawing.graph.constants
    x, numbers = value(drawing, node, 0 if second else 1), drawing.graph.constants[node.input[1 if second else 0]]
    number = np.asarray(numbers, dtype=np.float64)
    one, none = np.ones(()), np.zeros(())
    match node.op_type, second:
        case ("Add" | "Sum", _):
            scale, shift = one, number
        case ("Sub", True):
            scale, shift = one, -number
        case ("Sub", False):
            scale, shift = -one, number
        case ("Mul", _):
            scale, shift = number, none
        case ("Div", True) if np.all(number):
            scale, shift = 1 / number, none
        case _:
            raise refuse(
                name, f"{node.op_type} of a constant and a tensor", "build it from Add, Sub, Mul, or Div by a constant"
            )
    shape = drawing.graph.shapes[node.output[0]]
    if shape[1:] != drawing.graph.shapes[node.input[0 if second else 1]][1:]:
        raise refuse(
            name,
            f"its constant of shape {list(numbers.shape)} changes its input's shape to {list(shape)}",
            "expected no change",
        )
    return affine(drawing, name, x, *(of_a_row(part, shape) for part in (scale, shift)))
