# SPDX-License-Identifier: Apache-2.0
"""Draws Split, Slice and Gather of constant indices: parts of a tensor along one axis, without arithmetic.

A part is a Cropping of the tensor in the shape (before, axis, behind); every n-th index is a pooling of windows of one number;
other indices are parts that are joined. The functions that draw a node have the arguments and errors of those in layers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from hypersonic.hls.frontend.onnx.layers import (
    Drawing,
    Value,
    constant,
    layers,
    plain,
    refuse,
    value,
)
from hypersonic.hls.frontend.onnx.nodes import attributes

#: parts that are joined for one Gather, at most
_MOST_PARTS = 64


def split(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Split: one part for each result that is read."""
    rank = len(drawing.graph.shapes[node.input[0]])
    axis = _axis(attributes(node).get("axis", 0), rank, name, node)
    x, parts, start = _whole(drawing, node, name), list[Value](), 0
    for index, tensor in enumerate(node.output):
        size = drawing.graph.shapes[tensor][axis]
        parts.append(_part(f"{name}_{index}", x, axis, range(start, start + size)))
        drawing.values[tensor] = parts[-1]
        start += size
    return parts[0]


def sliced(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Slice, along one axis after the other."""
    options, shape, x = attributes(node), drawing.graph.shapes[node.input[0]], _whole(drawing, node, name)
    given = [constant(drawing, node, i, what, name) for i, what in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))]
    starts, ends = (
        [int(one) for one in (options[what] if found is None else found.reshape(-1))]
        for what, found in (("starts", given[0]), ("ends", given[1]))
    )
    axes = options.get("axes", range(len(starts))) if given[2] is None else given[2].reshape(-1)
    steps = [1] * len(starts) if given[3] is None else [int(one) for one in given[3].reshape(-1)]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        place = int(axis) % len(shape)
        indices = range(*slice(start, end, step).indices(shape[place]))
        if place == 0 and indices == range(shape[0]):
            continue
        x = _part(f"{name}_{place}", x, _axis(place, len(shape), name, node), indices)
    return x


def gathered(drawing: Drawing, node: Any, name: str) -> Value:
    """Draw Gather of constant indices."""
    indices = constant(drawing, node, 1, "indices", name)
    if node.input[0] in drawing.graph.constants or indices is None:
        raise refuse(name, "Gather of a constant by computed indices", "expected constant indices, or Keras' Embedding")
    shape = drawing.graph.shapes[node.input[0]]
    axis = _axis(attributes(node).get("axis", 0), len(shape), name, node)
    wanted, x = [int(one) % shape[axis] for one in indices.reshape(-1)], _whole(drawing, node, name)
    if indices.ndim == 1:
        return _part(name, x, axis, wanted)
    picked = plain(_part(name, x, axis, wanted), f"{name}_picked")
    return Value(layers().Reshape(drawing.graph.shapes[node.output[0]][1:] or (1,), name=f"{name}_shape")(picked.tensor))


def _axis(axis: int, rank: int, name: str, node: Any) -> int:
    place = int(axis) % rank
    if place == 0:
        raise refuse(name, f"{node.op_type} along axis 0, the rows", "expected another axis")
    return place


def _whole(drawing: Drawing, node: Any, name: str) -> Value:
    x = value(drawing, node)
    return plain(x, f"{name}_whole") if x.flat else x


def _part(name: str, x: Value, axis: int, indices: Sequence[int]) -> Value:
    """Indices of an axis of the file's tensor, which counts the rows as axis 0."""
    place = axis - 1
    if x.image:
        place = len(x.shape) - 1 if axis == 1 else axis - 2
    runs = _runs(list(indices))
    if not runs or len(runs) > _MOST_PARTS:
        raise refuse(name, f"it picks {len(indices)} indices in {len(runs)} runs", f"expected 1 to {_MOST_PARTS} runs")
    tensors = [_run(f"{name}_{at}" if len(runs) > 1 else name, x.tensor, x.shape, place, run) for at, run in enumerate(runs)]
    joined = tensors[0]
    for at, tensor in enumerate(tensors[1:], 1):
        own = name if at == len(tensors) - 1 else f"{name}_joined_{at}"
        joined = layers().Concatenate(axis=place + 1, name=own)([joined, tensor])
    return Value(joined, x.image)


def _runs(indices: list[int]) -> list[range]:
    """The indices as ranges with a positive step, as long as possible from the left."""
    runs = list[range]()
    while indices:
        step = indices[1] - indices[0] if len(indices) > 1 else 1
        step = step if step > 0 else 1
        count = 1
        while count < len(indices) and indices[count] - indices[count - 1] == step:
            count += 1
        runs.append(range(indices[0], indices[count - 1] + 1, step))
        indices = indices[count:]
    return runs


def _run(name: str, tensor: Any, shape: tuple[int, ...], place: int, run: range) -> Any:
    """The indices of a range along one axis of a row's shape."""
    size = shape[place]
    if run == range(size):
        return tensor
    before, behind = prod(shape[:place]), prod(shape[place + 1 :])
    line = before == 1
    viewed = (size, behind) if line else (before, size, behind)
    if shape != viewed:
        tensor = layers().Reshape(viewed, name=f"{name}_view")(tensor)
    ends = (run.start, size - 1 - run[-1])
    if any(ends):
        crop = layers().Cropping1D(ends, name=name) if line else layers().Cropping2D(((0, 0), ends), name=name)
        tensor = crop(tensor)
    if run.step > 1:
        pool = layers().MaxPooling1D(1, run.step, name=f"{name}_each")
        tensor = (pool if line else layers().MaxPooling2D(1, (1, run.step), name=f"{name}_each"))(tensor)
    wanted = (*shape[:place], len(run), *shape[place + 1 :])
    return tensor if tuple(tensor.shape[1:]) == wanted else layers().Reshape(wanted, name=f"{name}_part")(tensor)
