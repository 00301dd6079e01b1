# SPDX-License-Identifier: Apache-2.0
"""The pixels that a window gives, and those that it reads."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.network.base import Tensor, Window
from hypersonic.hls.network.raw import Integers


def window_shape(tensor: Tensor, seen: Window) -> tuple[int, int]:
    """Return the height and width of the output."""
    height, width, _ = tensor.image
    return (
        (height + seen.pad_top + seen.pad_bottom - seen.kernel[0]) // seen.stride[0] + 1,
        (width + seen.pad_left + seen.pad_right - seen.kernel[1]) // seen.stride[1] + 1,
    )


def window_elements(tensor: Tensor, seen: Window, x: Integers, pad: int = 0) -> Integers:
    """Return what each window reads: (rows, output pixels of all images, kernel pixels, channels).

    Args:
        x: (rows, elements of the tensor).
        pad: the value of a padded pixel.
    """
    pads = ((0, 0), (seen.pad_top, seen.pad_bottom), (seen.pad_left, seen.pad_right), (0, 0))
    images = np.pad(x.reshape(-1, *tensor.image), pads, constant_values=pad)
    height, width = window_shape(tensor, seen)
    (rows, columns), (down, across) = seen.kernel, seen.stride
    cut = [
        images[:, kh : kh + (height - 1) * down + 1 : down, kw : kw + (width - 1) * across + 1 : across]
        for kh in range(rows)
        for kw in range(columns)
    ]
    return np.stack(cut, axis=3).reshape(len(x), -1, seen.size, tensor.channels)
