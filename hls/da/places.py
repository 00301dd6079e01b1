# SPDX-License-Identifier: Apache-2.0
"""Numbers by their places in a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, greater
from hypersonic.hls.network.base import Tensor, Window
from hypersonic.hls.network.windows import window_elements

#: indices of elements, -1 for padding
Places = NDArray[np.int64]


def window_places(tensor: Tensor, seen: Window) -> Places:
    """Return the elements of each window: (output pixels of all images, kernel pixels, channels)."""
    places: Places = window_elements(tensor, seen, np.arange(tensor.size)[None], -1)[0]
    return places


def taken(x: Numbers, places: Places, instead: Number) -> list[Number]:
    """Return the numbers at some places, and another where a place is negative."""
    return [x[place] if place >= 0 else instead for place in places.reshape(-1).tolist()]


def greatest(graph: AdderGraph, x: Sequence[Number]) -> Number:
    """Return the largest of some numbers."""
    if len(x) == 1:
        return x[0]
    half = len(x) // 2
    return greater(graph, greatest(graph, x[:half]), greatest(graph, x[half:]))
