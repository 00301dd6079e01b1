# SPDX-License-Identifier: Apache-2.0
"""Nearest-neighbour upsampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypersonic.hls.network.attributes import refuse
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers


@dataclass(frozen=True)
class Upsample(OneInput):
    """Repetition of each pixel; nnet_image.h resize_nearest.

    Attributes:
        factor: repetitions (down, across).
    """

    factor: tuple[int, int]


def _read(layer: Any, x: Tensor, y: Tensor) -> Upsample:
    (height, width, _), (new_height, new_width, _) = x.image, y.image
    if str(layer.get_attr("algorithm")) != "nearest" or new_height % height or new_width % width:
        raise refuse(
            layer,
            f"it resizes {height}x{width} to {new_height}x{new_width} by {layer.get_attr('algorithm')}, expected whole "
            "factors and nearest",
        )
    return Upsample(layer.name, x, y, (new_height // height, new_width // width))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Upsample, x: Integers) -> Integers:
    images = x.reshape(-1, *layer.x.image)
    return images.repeat(layer.factor[0], axis=1).repeat(layer.factor[1], axis=2)


LAYER = LayerType(Upsample, _evaluate, readers={"Resize": _read})
