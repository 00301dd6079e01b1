# SPDX-License-Identifier: Apache-2.0
"""Draws ONNX nodes that do not depend on the positions of channels as Keras layers (see draw.py).

Functions that draw a node take (drawing, node, name) and return the Keras tensor. They raise UnsupportedLayerError, with the
name, for what hls4ml cannot do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.keras.parts import product, swapped
from hypersonic.hls.frontend.onnx.nodes import Array, OnnxGraph, attributes


@dataclass(frozen=True)
class Value:
    """A Keras tensor, and how the ONNX tensor's numbers are ordered in it.

    Attributes:
        image: the ONNX tensor has channels first, this one has them last.
        flat: the ONNX tensor is flattened (in its own order), this one is not.
    """

    tensor: Any
    image: bool = False
    flat: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The Keras tensor's shape without the batch."""
        return tuple(int(size) for size in self.tensor.shape[1:])


@dataclass
class Drawing:
    """The tensors drawn so far.

    Attributes:
        values: Keras tensors by ONNX name.
        weights: arrays for set_weights, by layer name.
        types: hls4ml's types of results and weights that quantisers give, by layer name.
    """

    graph: OnnxGraph
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, list[Array]] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)

    def typed(self, name: str, **tensors: str) -> None:
        """Note the types of a layer's weights.

        Args:
            tensors: the file's tensor by hls4ml's name of the weight.
        """
        known = {weight: self.graph.types[tensor] for weight, tensor in tensors.items() if tensor in self.graph.types}
        if known:
            self.types[name] = known


def refuse(name: str, why: str, remedy: str) -> UnsupportedLayerError:
    """Return the error for a node that is refused; the caller raises it."""
    return UnsupportedLayerError(f"layer {name!r}: {why}; {remedy}")


def constant(drawing: Drawing, node: Any, index: int, what: str, name: str) -> Array | None:
    """Return input `index`, which must be a constant, or None if it is left out.

    Args:
        what: its meaning, for the error.
    """
    if index >= len(node.input) or not node.input[index]:
        return None
    if node.input[index] not in drawing.graph.constants:
        raise refuse(name, f"the {what} of {node.op_type} is computed, and hls4ml takes constants", "make it a constant")
    return drawing.graph.constants[node.input[index]]


def value(drawing: Drawing, node: Any, index: int = 0) -> Value:
    """Return input `index`, which is computed, as drawn so far."""
    return drawing.values[node.input[index]]


def layers() -> Any:
    """Return tf_keras.layers, imported at the first call."""
    from tf_keras import layers

    return layers


def unary(make: Callable[[str, Any], Any]) -> Callable[[Drawing, Any, str], Value]:
    """Return a function that draws a node with one input as an elementwise layer.

    Args:
        make: (name, node) -> the layer.
    """

    def drawn(drawing: Drawing, node: Any, name: str) -> Value:
        x = value(drawing, node)
        return Value(make(name, node)(x.tensor), x.image, x.flat)

    return drawn


def plain(x: Value, name: str) -> Value:
    """Return the tensor with the file's order and shape, adding a Permute or Reshape named after `name` where needed."""
    tensor, shape = x.tensor, x.shape
    if not (x.image or x.flat):
        return x
    if prod(shape[:-1]) != 1 and shape[-1] != 1:
        tensor = layers().Permute((len(shape), *range(1, len(shape))), name=f"{name}_permute")(tensor)
    wanted = (prod(shape),) if x.flat else (shape[-1], *shape[:-1])
    return Value(tensor if tuple(tensor.shape[1:]) == wanted else layers().Reshape(wanted, name=f"{name}_file_order")(tensor))


def image(x: Value, name: str) -> Value:
    """Return the tensor with channels last.

    Args:
        x: of three or four dimensions, including the batch.
    """
    if x.image:
        return x
    rank = len(x.shape)
    if x.flat or rank not in (2, 3):
        raise refuse(name, f"its input has {rank + 1} dimensions", "expected 3 or 4: batch, channels, one or two spatial axes")
    return Value(layers().Permute((*range(2, rank + 1), 1), name=f"{name}_channels_last")(x.tensor), image=True)


def flattened(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Flatten, Reshape, Squeeze or Unsqueeze, according to the shape of the result."""
    x, shape, rows = value(drawing, node), drawing.graph.shapes[node.output[0]], drawing.graph.shapes[node.input[0]][0]
    if len(shape) < 2 or shape[0] != rows:
        raise refuse(name, f"{node.op_type} to shape {list(shape)} mixes rows", "expected the rows as the first dimension")
    if len(shape) == 2:
        if x.image or x.flat:
            return Value(x.tensor, flat=True)
        return x if len(x.shape) == 1 else Value(layers().Flatten(name=name)(x.tensor))
    channels, places = shape[1], shape[2:]
    if x.image and channels == x.shape[-1] and [s for s in places if s > 1] == [s for s in x.shape[:-1] if s > 1]:
        wanted = (*places, channels)
        return x if wanted == x.shape else Value(layers().Reshape(wanted, name=name)(x.tensor), image=True)
    x = plain(x, name)
    return x if x.shape == shape[1:] else Value(layers().Reshape(shape[1:], name=name)(x.tensor))


def transpose(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Transpose; one that only moves the channels needs no layer."""
    x = value(drawing, node)
    rank = len(drawing.graph.shapes[node.input[0]])
    order = [int(axis) for axis in attributes(node).get("perm", range(rank - 1, -1, -1))]
    if order[0] != 0:
        why = f"Transpose by {order} moves the rows, and they cannot be kept in front"
        raise refuse(name, why, "compute each row alone, and export the model with the batch open or for one row")
    first = [0, rank - 1, *range(1, rank - 1)]  # of a tensor with channels last
    if x.image and [first[axis] for axis in order] == list(range(rank)):
        return Value(x.tensor)
    if not x.image and not x.flat and order == first and rank in (3, 4):
        return Value(x.tensor, image=True)
    x = plain(x, f"{name}_before")
    return x if order == list(range(rank)) else Value(layers().Permute(order[1:], name=name)(x.tensor))


def passed(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw an operator of PASSING: its input, without a layer."""
    training = constant(drawing, node, 2, "training_mode", name)
    masks = [tensor for tensor in node.output[1:] if drawing.graph.readers(tensor) or tensor in drawing.graph.outputs]
    if (training is not None and training.any()) or masks:
        raise refuse(name, f"{node.op_type} in training mode, or whose mask is read", "export the model for inference")
    x = value(drawing, node)
    if (kind := drawing.graph.types.get(node.output[0])) is None:
        return x
    drawing.types[name] = {"result": kind}
    return Value(layers().Activation("linear", name=name)(x.tensor), x.image, x.flat)


def of_a_row(numbers: Array, shape: tuple[int, ...]) -> Array:
    """Return the first row of numbers that are broadcast to a shape, with the rows as its first axis."""
    row: Array = np.broadcast_to(numbers, shape)[0]
    return row


def affine(drawing: Drawing, name: str, x: Value, scale: Array, shift: Array) -> Value:
    """Draw x * scale + shift as a BatchNormalization.

    Args:
        scale, shift: of a row's shape, in the file's order.
    """
    if x.flat:
        x = plain(x, name)
    if x.image:
        scale, shift = (np.moveaxis(part, 0, -1) for part in (scale, shift))
    tensor, shape = x.tensor, x.shape
    rows = [part.reshape(-1, shape[-1]) for part in (scale, shift)]
    if all((row == row[0]).all() for row in rows):
        weights = [row[0] for row in rows]
        tensor = layers().BatchNormalization(epsilon=0.0, name=name)(tensor)
    else:  # the positions have different numbers: normalise the flattened row
        weights = [part.reshape(-1) for part in (scale, shift)]
        tensor = layers().Flatten(name=f"{name}_flat")(tensor)
        tensor = layers().BatchNormalization(epsilon=0.0, name=name)(tensor)
        tensor = layers().Reshape(shape, name=f"{name}_shape")(tensor)
    drawing.weights[name] = [*weights, np.zeros_like(weights[0]), np.ones_like(weights[0])]
    return Value(tensor, x.image)


def _product(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw MatMul of two computed tensors, as in attention, as an Einsum."""
    from hypersonic.hls.frontend.keras.classes import own_classes

    x = [plain(drawing.values[tensor], f"{name}_{side}") for tensor, side in zip(node.input, ("first", "second"), strict=True)]
    found = product(*(each.shape for each in x)) if node.op_type == "MatMul" else []
    if not found:
        shapes = " and ".join(str(["batch", *each.shape]).replace("'", "") for each in x)
        raise refuse(
            name,
            f"{node.op_type} of two computed tensors of the shapes {shapes}",
            "expected matrices, with the same axes before them",
        )
    return Value(own_classes()["Einsum"](found[0].options["equation"], name=name)([each.tensor for each in x]))


def dense(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Gemm or MatMul as a Dense. An Add of a constant that alone reads the product becomes its bias."""
    options, x = attributes(node), drawing.values.get(node.input[0])
    if node.input[1] in drawing.values:
        return _product(drawing, node, name) if x is not None else _turned_dense(drawing, node, name)
    weight = constant(drawing, node, 1, "second factor", name)
    if x is None or weight is None or weight.ndim != 2 or options.get("transA", 0):
        raise refuse(name, f"{node.op_type} whose first factor is a constant or transposed, or whose second is not a constant "
                     "matrix", "expected inputs times weights")  # fmt: skip
    weight = (weight.T if options.get("transB", 0) else weight) * options.get("alpha", 1.0)
    bias, behind = constant(drawing, node, 2, "bias", name), None
    biases = node.input[2:3]
    if bias is not None:
        bias = np.broadcast_to(bias * options.get("beta", 1.0), drawing.graph.shapes[node.output[0]])
    elif (behind := _bias_behind(drawing.graph, node)) is not None:
        bias = np.broadcast_to(np.asarray(_constant_of(drawing.graph, behind)), drawing.graph.shapes[behind.output[0]])
        biases = [tensor for tensor in behind.input if tensor in drawing.graph.constants]
    if bias is not None:
        rows = bias.reshape(-1, weight.shape[1])
        if not (rows == rows[0]).all():
            raise refuse(name, f"{node.op_type} with a bias of its own for each row", "expected one for all rows")
        bias = rows[0]
    if x.flat:
        shape = x.shape
        weight = np.moveaxis(weight.reshape(shape[-1], *shape[:-1], -1), 0, -2).reshape(weight.shape)
        tensor = layers().Flatten(name=f"{name}_flat")(x.tensor)
    else:
        tensor = plain(x, name).tensor
    drawing.weights[name] = [weight, *([] if bias is None else [bias])]
    if options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0:
        drawing.typed(name, weight=node.input[1], **({"bias": biases[0]} if biases else {}))
    product = Value(layers().Dense(weight.shape[1], use_bias=bias is not None, name=name)(tensor))
    if behind is not None:
        drawing.values[behind.output[0]] = product
    return product


def _turned_dense(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw MatMul of a constant matrix and a tensor, as in a graph network: a Dense between two transpositions."""
    matrix, x = constant(drawing, node, 0, "first factor", name), plain(drawing.values[node.input[1]], name)
    last = len(x.shape)
    if matrix is None or matrix.ndim < 2 or prod(matrix.shape[:-2]) != 1 or last < 2:
        raise refuse(
            name, f"MatMul of a constant and a tensor with rows of shape {x.shape}", "expected a matrix times matrices"
        )
    matrix = matrix.reshape(matrix.shape[-2:])
    order = swapped(last - 1, last)
    drawing.weights[name] = [matrix.T]
    turned = layers().Permute(order, name=f"{name}_before")(x.tensor)
    product = layers().Dense(len(matrix), use_bias=False, name=name)(turned)
    return Value(layers().Permute(order, name=f"{name}_behind")(product))


def _bias_behind(graph: OnnxGraph, node: Any) -> Any:
    """The Add of a constant that alone reads a product and does not change its shape, or None."""
    product, readers = node.output[0], graph.readers(node.output[0])
    if product in graph.outputs or len(readers) != 1 or readers[0].op_type != "Add":
        return None
    numbers = _constant_of(graph, readers[0])
    if numbers is None or graph.shapes[readers[0].output[0]] != graph.shapes[product]:
        return None
    rows = np.broadcast_to(np.asarray(numbers), graph.shapes[product]).reshape(-1, graph.shapes[product][-1])
    return readers[0] if (rows == rows[0]).all() else None


def _constant_of(graph: OnnxGraph, node: Any) -> Array | None:
    return next((graph.constants[tensor] for tensor in node.input if tensor in graph.constants), None)


def scaled(drawing: Drawing, name: str, x: Value, scale: float, shift: float) -> Value:
    """Draw x * scale + shift with one scale and one shift; x itself if that changes nothing."""
    if (scale, shift) == (1.0, 0.0):
        return x
    x = plain(x, name) if x.flat else x
    return affine(drawing, name, x, *(np.full(plain_shape(x), number) for number in (scale, shift)))


def plain_shape(x: Value) -> tuple[int, ...]:
    """Return the shape of a row in the file's order."""
    return (x.shape[-1], *x.shape[:-1]) if x.image else x.shape
