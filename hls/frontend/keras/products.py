# SPDX-License-Identifier: Apache-2.0
"""Products as layers that hls4ml reads: with weights as a Dense, of two tensors as an Einsum (classes.py).

Attention is both, and a softmax.
"""

from __future__ import annotations

from math import prod, sqrt
from string import ascii_lowercase
from typing import Any

import numpy as np

from hypersonic.hls.errors import without_layers
from hypersonic.hls.frontend.keras.parts import LayerPart, Shape, affine, called_shapes, einsum, reshape

#: steps and channels of queries and of keys, by head -> scores
_SCORES = "tha,sha->hts"
#: scores of steps by head, and the values -> their weighted mean
_MEANS = "hts,sha->tha"

#: arguments of a call that change its result
_MASKS = ("attention_mask", "mask", "use_causal_mask", "return_attention_scores")


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


def multi_head_attention(layer: Any) -> list[LayerPart]:
    """Return the parts of a Keras 2 MultiHeadAttention over all axes but the last of its input.

    The scale of the scores, 1 / sqrt(key_dim), is in the weights of the queries. Raises UnsupportedLayerError for a mask, for
    attention over some axes, and for a call that returns the scores.
    """
    _check_call(layer)
    options, shapes = layer.get_config(), called_shapes(layer)
    axes = options.get("attention_axes")
    if axes is not None and len(axes) != len(shapes[0]) - 1:
        raise without_layers(
            layer, f"attention_axes={list(axes)} of {len(shapes[0])} axes", "reshape, so that all axes are attended"
        )
    heads, key_size, value_size = (int(options[name]) for name in ("num_heads", "key_dim", "value_dim"))
    steps = [prod(shape[:-1]) for shape in shapes]
    scale = 1 / sqrt(key_size)
    value, key = _places(layer)
    out = layer._output_dense.get_weights()
    width = prod(out[0].shape[2:])
    projections = (
        (0, key_size, _matrix(layer._query_dense, scale), "query"),
        (key, key_size, _matrix(layer._key_dense), "key"),
        (value, value_size, _matrix(layer._value_dense), "value"),
    )
    made, ends = list[LayerPart](), list[int]()
    for place, size, weights, role in projections:
        made += _projected(shapes[place], (steps[place], heads, size), weights, place, role)
        ends.append(len(made) - 1)
    at = len(made)
    made += [
        einsum(_SCORES, (ends[0] - at, ends[1] - at), "scores"),
        LayerPart("Activation", {"activation": "softmax"}, role="softmax"),
        einsum(_MEANS, (-1, ends[2] - at - 2), "mean"),
        _reshaped((steps[0], heads * value_size), "joined"),
        LayerPart(
            "Dense", {"units": width, "use_bias": len(out) > 1},
            weights=[out[0].reshape(heads * value_size, width), *(bias.reshape(-1) for bias in out[1:])], role="output",
        ),
    ]  # fmt: skip
    shape = tuple(int(size) for size in layer.output_shape[1:])
    return made if shape == (steps[0], width) else [*made, reshape(shape)]


def attention(layer: Any) -> list[LayerPart]:
    """Return the parts of a Keras 2 Attention: softmax(scale * query . key) . value, in this order of its tensors:
    query, value, key. Raises UnsupportedLayerError for another score_mode and for a mask."""
    _check_call(layer)
    options, shapes = layer.get_config(), called_shapes(layer)
    if options.get("score_mode", "dot") != "dot" or options.get("causal"):
        what = "a causal mask" if options.get("causal") else f"score_mode={options['score_mode']}"
        raise without_layers(layer, what, "use score_mode='dot' without a mask")
    parts = affine(shapes[0], float(np.asarray(layer.scale)), 0.0) if options.get("use_scale") else []
    key = 2 if len(shapes) > 2 else 1
    return [
        *parts,
        einsum("ta,sa->ts", (-1 if parts else 0, key), "scores"),
        LayerPart("Activation", {"activation": "softmax"}, role="softmax"),
        einsum("ts,sa->ta", (-1, 1)),
    ]


def _places(layer: Any) -> tuple[int, int]:
    """The places of the value and of the key among the tensors of a MultiHeadAttention's call; they may be keywords."""
    (node,) = layer.inbound_nodes
    order = ["query", "value", "key"][: len(node.call_args)] + [name for name in node.call_kwargs if name in ("value", "key")]
    value = order.index("value")
    return value, order.index("key") if "key" in order and node.call_kwargs.get("key", 0) is not None else value


def _projected(shape: Shape, heads: Shape, weights: list[Any], read: int, role: str) -> list[LayerPart]:
    """A Dense of each step, and its result by heads.

    Args:
        heads: (steps, heads, channels).
    """
    flat = (heads[0], shape[-1])
    before = [] if shape == flat else [_reshaped(flat, f"{role}_steps", read)]
    dense = LayerPart(
        "Dense", {"units": heads[1] * heads[2], "use_bias": len(weights) > 1}, (-1 if before else read,), weights, role
    )
    return [*before, dense, _reshaped(heads, f"{role}_heads")]


def _reshaped(shape: Shape, role: str, read: int = -1) -> LayerPart:
    return LayerPart("Reshape", {"target_shape": shape}, (read,), role=role)


def _matrix(dense: Any, scale: float = 1.0) -> list[Any]:
    """The weights of an EinsumDense from channels to heads, as those of a Dense."""
    kernel, *bias = dense.get_weights()
    return [scale * kernel.reshape(len(kernel), -1), *(scale * one.reshape(-1) for one in bias)]


def _check_call(layer: Any) -> None:
    (node,) = layer.inbound_nodes
    for name in _MASKS:
        if node.call_kwargs.get(name) not in (None, False):
            raise without_layers(layer, f"a call with {name}", "call it without: hls4ml computes no masks and no second result")
