# SPDX-License-Identifier: Apache-2.0
"""Zero padding around an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.network.attributes import refuse
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast


@dataclass(frozen=True)
class ZeroPad(OneInput):
    """Zero padding; nnet_padding.h.

    Attributes:
        pad: pixels (top, bottom, left, right).
    """

    pad: tuple[int, int, int, int]


def _read(layer: Any, x: Tensor, y: Tensor) -> ZeroPad:
    if str(layer.get_attr("data_format", "channels_last")) != "channels_last":
        raise refuse(layer, "data_format is channels_first, expected channels_last")
    sides = tuple(int(layer.get_attr(f"pad_{side}", 0) or 0) for side in ("top", "bottom", "left", "right"))
    top, bottom, left, right = (*sides[2:], 0, 0) if layer.class_name.endswith("1D") else sides
    return ZeroPad(layer.name, x, y, (top, bottom, left, right))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: ZeroPad, x: Integers) -> Integers:
    top, bottom, left, right = layer.pad
    padded = np.pad(x.reshape(-1, *layer.x.image), ((0, 0), (top, bottom), (left, right), (0, 0)))
    return cast(padded, layer.x.precision.fraction, layer.y.precision)


LAYER = LayerType(ZeroPad, _evaluate, readers={"ZeroPadding1D": _read, "ZeroPadding2D": _read})
