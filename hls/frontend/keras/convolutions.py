# SPDX-License-Identifier: Apache-2.0
"""Dilated and transposed convolutions as convolutions that hls4ml reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.errors import without_layers
from hypersonic.hls.frontend.keras.parts import LayerPart, Shape, called_shapes, reshape


def dilated(layer: Any) -> list[LayerPart]:
    """Return a convolution whose kernel has zeros between its numbers; nothing for one without dilation."""
    options = layer.get_config()
    apart = tuple(int(one) for one in layer.dilation_rate)
    if set(apart) == {1}:
        return []
    kernel, *rest = layer.get_weights()
    wide = dilated_kernel(kernel, apart)
    kept = {key: value for key, value in options.items() if key != "name"}
    return [
        LayerPart(
            type(layer).__name__, {**kept, "kernel_size": wide.shape[: len(apart)], "dilation_rate": 1}, (0,), (wide, *rest)
        )
    ]


def dilated_kernel(kernel: NDArray[Any], apart: Sequence[int]) -> NDArray[Any]:
    """Return a kernel with zeros between its numbers.

    Args:
        apart: the dilation along each of the first axes.
    """
    sizes = [(size - 1) * step + 1 for size, step in zip(kernel.shape, apart, strict=False)]
    wide = np.zeros((*sizes, *kernel.shape[len(apart) :]), kernel.dtype)
    wide[tuple(slice(None, None, step) for step in apart)] = kernel
    return wide


def transposed(layer: Any) -> list[LayerPart]:
    """Return a convolution of the input with zeros between its numbers, by the kernel turned around.

    The zeros are padding of the input in other shapes. Keras' result has m numbers along an axis of n numbers, with kernel
    size k and stride s. TensorFlow takes p = max((n - 1) s + k - m, 0) numbers away, p // 2 of them in front.
    Raises UnsupportedLayerError for dilation and for channels first.
    """
    options = layer.get_config()
    if options["data_format"] != "channels_last":
        raise without_layers(layer, f"data_format={options['data_format']!r}", "use channels_last")
    if set(layer.dilation_rate) != {1}:
        raise without_layers(layer, f"dilation_rate={list(layer.dilation_rate)}", "use a dilation rate of 1")
    (shape,) = called_shapes(layer)
    kernel, *bias = layer.get_weights()
    places = len(shape) - 1
    sides = [
        _side(*sizes) for sizes in zip(shape[:-1], layer.output_shape[1:-1], kernel.shape[:places], layer.strides, strict=True)
    ]
    turned = np.flip(np.moveaxis(kernel, -1, -2), axis=tuple(range(places)))
    made = {key: options[key] for key in ("filters", "kernel_size", "use_bias", "activation")}
    convolution = LayerPart(f"Conv{places}D", made, weights=[turned, *bias])
    first, *rest = [*spread(shape, layer.strides, sides), convolution]
    return [replace(first, reads=(0,)), *rest]


def _side(size: int, wanted: int, kernel: int, step: int) -> tuple[int, int]:
    """The zeros in front of and behind a spread axis; below 0, the numbers to take away."""
    before = kernel - 1 - max((size - 1) * step + kernel - wanted, 0) // 2
    return before, wanted + kernel - 1 - size * step - before


def spread(shape: Shape, strides: Sequence[int], sides: Sequence[tuple[int, int]]) -> list[LayerPart]:
    """Return parts that put stride - 1 zeros behind each number along each spatial axis, and zeros around all of them.

    Args:
        shape: of a row.
        sides: the zeros in front of and behind each axis; below 0, the numbers to take away.
    """
    sizes = list(shape)
    parts: list[LayerPart] = []
    for axis, step in reversed(list(enumerate(strides))):
        if step == 1:
            continue
        line = (prod(sizes[: axis + 1]), 1, prod(sizes[axis + 1 :]))
        sizes[axis] *= step
        parts += [
            reshape(line),
            LayerPart("ZeroPadding2D", {"padding": ((0, 0), (0, step - 1))}),
            reshape(tuple(sizes)),
        ]
    return parts + _around(sides)


def _around(sides: Sequence[tuple[int, int]]) -> list[LayerPart]:
    """Put zeros around, or take numbers away where a count is below 0."""
    parts: list[LayerPart] = []
    for kind, option, sign in (("ZeroPadding", "padding", 1), ("Cropping", "cropping", -1)):
        counts = tuple((max(sign * before, 0), max(sign * after, 0)) for before, after in sides)
        if any(map(any, counts)):
            parts.append(LayerPart(f"{kind}{len(sides)}D", {option: counts if len(counts) > 1 else counts[0]}))
    return parts
