# SPDX-License-Identifier: Apache-2.0
"""Products as layers that hls4ml reads: with weights as a Dense, of two tensors as an Einsum (classes.py)."""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any

import numpy as np

from hypersonic.hls.errors import without_layers
from hypersonic.hls.frontend.keras.parts import LayerPart, Shape, called_shapes, einsum, reshape


def einsum_dense(layer: Any) -> list[LayerPart]:
    """Return the parts of a Keras 2 EinsumDense: moved axes, a Dense, and moved axes.

    Raises UnsupportedLayerError for one that has weights of its own for each position.
    """
    (shape,) = called_shapes(layer)
    x, kernel, y = _axes(layer.equation, len(shape))
    summed = [axis for axis in x if axis in kernel]
    kept, made = [axis for axis in x if axis not in kernel], [axis for axis in kernel if axis not in summed]
    if any(axis in y for axis in summed) or sorted(kept + made) != sorted(y):
        raise without_layers(
            layer, f"equation={layer.equation!r}, with weights for each position", "use a Dense or a convolution"
        )
    size = dict(zip(x, shape, strict=True)) | dict(zip(kernel, layer.kernel.shape, strict=True))
    numbers = np.asarray(layer.kernel)
    matrix = np.transpose(numbers, [kernel.index(axis) for axis in (*summed, *made)])
    count = int(np.prod([size[axis] for axis in summed]))
    weights = [matrix.reshape(count, -1)]
    if layer.bias is not None:
        weights.append(_bias(layer, y, made, tuple(size[axis] for axis in y)))
    rows = tuple(size[axis] for axis in kept)
    parts = [LayerPart("Permute", {"dims": _order(x, [*kept, *summed])}, (0,))] if x != [*kept, *summed] else []
    if len(summed) != 1:
        parts.append(reshape((*rows, count), -1 if parts else 0))
    units = weights[0].shape[1]
    parts.append(LayerPart("Dense", {"units": units, "use_bias": len(weights) > 1}, (-1 if parts else 0,), weights))
    if len(made) != 1:
        parts.append(reshape((*rows, *(size[axis] for axis in made))))
    if [*kept, *made] != y:
        parts.append(LayerPart("Permute", {"dims": _order([*kept, *made], y)}))
    activation = layer.get_config().get("activation")
    return parts if activation in (None, "linear") else [*parts, LayerPart("Activation", {"activation": activation})]


def dot(layer: Any) -> list[LayerPart]:
    """Return the parts of a Keras 2 Dot of tensors with several axes; none for vectors, which hls4ml reads."""
    shapes = called_shapes(layer)
    if all(len(shape) == 1 for shape in shapes):
        return []
    if layer.normalize:
        raise without_layers(layer, "normalize=True", "normalise the tensors before it")
    given = layer.axes if isinstance(layer.axes, list | tuple) else (layer.axes, layer.axes)
    first, second = (axis % (len(shape) + 1) - 1 for axis, shape in zip(given, shapes, strict=True))
    if min(first, second) < 0:
        raise without_layers(layer, f"axes={layer.axes}, the batch among them", "contract axes of a row")
    letters = iter(ascii_lowercase[1:])
    a, b = ([next(letters) for _ in shape] for shape in shapes)
    a[first] = b[second] = "a"
    result = [*a[:first], *a[first + 1 :], *b[:second], *b[second + 1 :]]
    return [einsum(f"{''.join(a)},{''.join(b)}->{''.join(result)}", (0, 1))]


def _axes(equation: str, count: int) -> tuple[list[str], list[str], list[str]]:
    """The axes of the input, the kernel and the result, without the batch.

    Args:
        count: of a row of the input.
    """
    read, y = equation.replace(" ", "").split("->")
    x, kernel = read.split(",")
    if "..." in x:  # the batch is among the axes that are not named
        named = len(x) - 3
        others = "".join(letter for letter in ascii_lowercase.upper() if letter not in equation)[: count - named]
        x, y = (each.replace("...", others) for each in (x, y))
        return list(x), list(kernel), list(y)
    return list(x[1:]), list(kernel), list(y[1:])


def _bias(layer: Any, y: list[str], made: list[str], shape: Shape) -> Any:
    """The bias of each result of the Dense. Raises UnsupportedLayerError for one that differs between positions."""
    whole = np.broadcast_to(np.asarray(layer.bias), shape)
    rows = np.transpose(whole, [y.index(axis) for axis in (*(each for each in y if each not in made), *made)])
    rows = rows.reshape(-1, int(np.prod([shape[y.index(axis)] for axis in made])))
    if not (rows == rows[0]).all():
        raise without_layers(layer, "a bias for each position", "leave out bias_axes that its input has")
    return rows[0]


def _order(now: list[str], wanted: list[str]) -> tuple[int, ...]:
    """The axes of a Permute, which counts them from 1."""
    return tuple(now.index(axis) + 1 for axis in wanted)
