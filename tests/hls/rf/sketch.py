# SPDX-License-Identifier: Apache-2.0
"""Networks of images of one size that branch and meet, drawn layer by layer."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Layer, Network, Tensor, Window
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.layers.pool import Pool, PoolOperation
from hypersonic.hls.network.layers.upsample import Upsample

KIND, WIDE = FixedPoint.with_fraction(8, 4), FixedPoint.with_fraction(24, 8)
NONE = Constants(np.zeros(0, dtype=np.int64), 0)


class Drawing:
    """A network as it grows: images of one size."""

    def __init__(self, inputs: int = 1, channels: int = 1, size: tuple[int, int] = (6, 4)) -> None:
        self.inputs = [Tensor(f"x{index}", (*size, channels), KIND) for index in range(inputs)]
        self.tensors = list(self.inputs)
        self.layers: list[Layer] = []

    def relu(self, x: Tensor) -> Tensor:
        return self._made(Map(self._name(), x, self._like(x, x.channels), MapFunction.RELU, NONE, NONE))

    def convolution(self, x: Tensor, kernel: tuple[int, int], reuse_factor: int = 1) -> Tensor:
        y, n_in = self._like(x, x.channels), kernel[0] * kernel[1] * x.channels
        pad = [(size - 1 - (size - 1) // 2, (size - 1) // 2) for size in kernel]
        seen = Window(kernel, (1, 1), pad[0][1], pad[0][0], pad[1][1], pad[1][0])
        weight, bias = (Constants(np.ones(shape, dtype=np.int64), 4) for shape in ((n_in, y.channels), (y.channels,)))
        return self._made(Dense(self._name(), x, y, weight, bias, WIDE, reuse_factor, reuse_factor, seen))

    def down_and_up(self, x: Tensor) -> Tensor:
        small = Tensor(f"{self._name()}_small", (x.shape[0] // 2, x.shape[1] // 2, x.channels), KIND)
        self.layers.append(Pool(self._name(), x, small, PoolOperation.MAX, Window((2, 2), (2, 2)), KIND))
        return self._made(Upsample(self._name(), small, self._like(x, x.channels), (2, 2)))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self._made(Merge(self._name(), a, b, self._like(a, a.channels), MergeOperation.ADD))

    def concatenate(self, a: Tensor, b: Tensor) -> Tensor:
        return self._made(Concatenate(self._name(), a, b, self._like(a, a.channels + b.channels), 2))

    def network(self) -> Network:
        """With all that nobody reads side by side as its one output."""
        read = {tensor.name for layer in self.layers for tensor in (getattr(layer, side, None) for side in "xab") if tensor}
        ends = [tensor for tensor in self.tensors if tensor.name not in read]
        while len(ends) > 1:
            a, b = ends.pop(), ends.pop()
            ends.append(self.concatenate(a, b))
        return Network("net", tuple(self.inputs), (ends[0],), tuple(self.layers))

    def _name(self) -> str:
        return f"layer_{len(self.layers)}"

    def _like(self, x: Tensor, channels: int) -> Tensor:
        return Tensor(f"t{len(self.layers)}", (*x.shape[:2], channels), KIND)

    def _made(self, layer: Layer) -> Tensor:
        self.layers.append(layer)
        self.tensors.append(layer.y)
        return layer.y
