# SPDX-License-Identifier: Apache-2.0
"""Layers that hls4ml reads, in place of one that it does not read: scaling, products, repetition, moved axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LayerPart:
    """A layer that computes a part of another one.

    Attributes:
        kind: a class of Keras 2.
        options: without a name.
        weights: its own.
        reads: the tensors that it reads: 0, 1, ... are the tensors that the whole layer reads; -1 is the result of the part
            directly before, -2 of the part before that, and so on.
        role: a suffix of the whole layer's name for the part; the last part has the whole layer's name.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    reads: Sequence[int] = (-1,)
    weights: Sequence[Any] = ()
    role: str = "part"


#: of a tensor that hls4ml's BatchNormalization reads, without the batch
_MOST_AXES = 3


def affine(shape: Shape, scale: ArrayLike, offset: ArrayLike, read: int = 0) -> list[LayerPart]:
    """Return parts that compute x * scale + offset.

    Args:
        shape: of a row of x.
        scale, offset: broadcast to that shape.
    """
    a, b = (np.broadcast_to(np.asarray(numbers, np.float64), shape) for numbers in (scale, offset))
    channels = shape[-1]
    by_channel = all((numbers == numbers.reshape(-1, channels)[0]).all() for numbers in (a, b))
    if by_channel:
        a, b = (numbers.reshape(-1, channels)[0] for numbers in (a, b))
    flat = not by_channel or len(shape) > _MOST_AXES
    inside = (prod(shape) // a.size, a.size) if by_channel else (a.size,)
    scaling = [LayerPart("BatchNormalization", {"epsilon": 0.0}, (read,), _statistics(a, b))]
    if not flat:
        return scaling
    return [reshape(inside, read), LayerPart("BatchNormalization", {"epsilon": 0.0}, (-1,), _statistics(a, b)), reshape(shape)]


def _statistics(scale: Any, offset: Any) -> list[Any]:
    """The weights of a normalisation by a mean of 0 and a variance of 1: gamma, beta, mean, variance."""
    return [scale, offset, np.zeros(scale.size), np.ones(scale.size)]


def reshape(shape: Shape, read: int = -1) -> LayerPart:
    """Return a Reshape to the shape of a row."""
    return LayerPart("Reshape", {"target_shape": shape}, (read,))


def called_shapes(layer: Any) -> list[Shape]:
    """Return the shapes of a row of the tensors that the layer's only call reads, those in its arguments too."""
    (node,) = layer.inbound_nodes
    return [tuple(int(size) for size in tensor.shape[1:]) for tensor in node.keras_inputs]


def einsum(equation: str, reads: Sequence[int], role: str = "part") -> LayerPart:
    """Return an Einsum of two tensors.

    Args:
        equation: of the axes of a row.
    """
    return LayerPart("Einsum", {"equation": equation}, reads, role=role)


def softmax(shape: Shape, axis: int) -> list[LayerPart]:
    """Return the parts of a softmax along an axis of a row; none along the batch.

    Args:
        shape: of a row.
        axis: counted with the batch, or from the end.
    """
    last = len(shape)
    along = LayerPart("Activation", {"activation": "softmax"}, (0,))
    if axis in (-1, last):
        return [along]
    if axis % (last + 1) == 0:
        return []
    to_last = LayerPart("Permute", {"dims": swapped(axis % (last + 1), last)}, (0,))
    return [to_last, replace(along, reads=(-1,), role="softmax"), replace(to_last, reads=(-1,))]


def swapped(axis: int, last: int) -> Shape:
    """Return the axes of a Permute that swaps an axis with the last, as Keras counts them: from 1, without the batch."""
    return tuple({axis: last, last: axis}.get(each, each) for each in range(1, last + 1))


def product(first: Shape, second: Shape, *, transposed: bool = False) -> list[LayerPart]:
    """Return the part of a matrix product of two tensors, as numpy's matmul has it.

    Returns no parts for other shapes: products of vectors, or of matrices that would have to be repeated.

    Args:
        first, second: shapes of a row, with the same axes before those of the matrix.
        transposed: the second matrix has its columns as rows.
    """
    if len(first) != len(second) or len(first) < 2 or first[:-2] != second[:-2]:
        return []
    if first[-1] != second[-1 if transposed else -2]:
        return []
    before = ascii_lowercase[3 : len(first) + 1]
    return [einsum(f"{before}ab,{before}{'cb' if transposed else 'bc'}->{before}ac", (0, 1))]


def repeated(shape: Shape, wanted: Shape, read: int = 0) -> list[LayerPart]:
    """Return parts that repeat a tensor along the axes that have the size 1, and along axes before the first.

    Args:
        shape: of a row.
        wanted: the shape that it is broadcast to, as numpy does.
    """
    now = (*(1,) * (len(wanted) - len(shape)), *shape)
    parts: list[LayerPart] = []
    for axis, (size, times) in enumerate(zip(now, wanted, strict=True)):
        if size == times:
            continue
        before, behind = prod(now[:axis]), prod(now[axis + 1 :])
        parts += [reshape((1, before * behind), -1 if parts else read), LayerPart("UpSampling1D", {"size": times})]
        now = (*now[:axis], times, *now[axis + 1 :])
        if behind == 1 and before > 1:
            parts.append(LayerPart("Permute", {"dims": (2, 1)}))
        elif before > 1:
            parts += [reshape((times, before, behind)), LayerPart("Permute", {"dims": (2, 1, 3)})]
    if not parts:
        return []
    return [*parts, reshape(wanted)] if _last_shape(parts, wanted) != wanted else parts


def _last_shape(parts: list[LayerPart], wanted: Shape) -> Shape:
    """The shape behind the parts, if the last is an UpSampling1D or a Permute of a matrix; () if it is not known."""
    times, of = (int(part.options["size"]) if part.kind == "UpSampling1D" else 0 for part in parts[-1:]), parts[-2:-1]
    first = next(times)
    if first and of and of[0].kind == "Reshape":
        return first, of[0].options["target_shape"][1]
    return wanted if parts[-1].kind == "Permute" and len(wanted) == 2 else ()


def merged(kind: str, shapes: Sequence[Shape]) -> list[LayerPart]:
    """Return parts of a merge of tensors of different shapes: repetitions, and the merge of the repeated ones.

    A shape with fewer axes is one without the first axes, as Keras' merges have it.

    Args:
        kind: Add, Subtract, ...
        shapes: of a row of each tensor.

    Raises:
        ValueError: For shapes that cannot be broadcast.
    """
    wanted = np.broadcast_shapes(*shapes)
    parts: list[LayerPart] = []
    ends: list[int] = []  # a tensor, or the place of a part
    for index, shape in enumerate(shapes):
        own = repeated(shape, wanted, index)
        parts += own
        ends.append(len(parts) - 1 if own else ~index)
    reads = [~end if end < 0 else end - len(parts) for end in ends]
    return [*parts, LayerPart(kind, {}, reads)]
