# SPDX-License-Identifier: Apache-2.0
"""Networks of published shapes for the search: weights are one number seen everywhere, so a million of them take no memory."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Layer, Network, Tensor, Window
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.depthwise import Depthwise
from hypersonic.hls.network.layers.global_pool import GlobalPool
from hypersonic.hls.network.layers.layernorm import LayerNorm
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.matmul import Matmul
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.layers.pool import Pool, PoolOperation
from hypersonic.hls.network.layers.quantise import Quantise
from hypersonic.hls.network.layers.recurrent import Cell, Recurrent
from hypersonic.hls.network.layers.reshape import Reshape
from hypersonic.hls.network.layers.softmax import Softmax, SoftmaxKind
from hypersonic.hls.network.layers.table import Table
from hypersonic.hls.network.windows import window_shape

KIND, ACCUM = FixedPoint.with_fraction(8, 4), FixedPoint.with_fraction(24, 12)
_NONE = Constants(np.zeros(0, dtype=np.int64), 0)


def constants(*shape: int) -> Constants:
    """All -100: eight bits."""
    return Constants(np.broadcast_to(np.int64(-100), shape), 4)


class Net:
    """Layers as they are added; x: what the next one reads."""

    def __init__(self, *shape: int) -> None:
        self.input = self.x = Tensor("x", shape, KIND)
        self.layers: list[Layer] = []

    def _made(self, shape: tuple[int, ...]) -> tuple[str, Tensor]:
        name = f"l{len(self.layers)}"
        return name, Tensor(f"{name}_y", shape, KIND)

    def _add(self, layer: Layer) -> Net:
        self.layers.append(layer)
        self.x = layer.y
        return self

    def dense(self, n_out: int, reuse_factor: int = 1) -> Net:
        name, y = self._made((*self.x.shape[:-1], n_out))
        weight, bias = constants(self.x.channels, n_out), constants(n_out)
        return self._add(Dense(name, self.x, y, weight, bias, ACCUM, reuse_factor, reuse_factor))

    def convolution(self, filters: int, kernel: int, stride: int = 1) -> Net:
        pad, channels = kernel // 2, self.x.channels
        seen = Window((kernel, kernel), (stride, stride), pad, pad, pad, pad)
        name, y = self._made((*window_shape(self.x, seen), filters))
        weight, bias = constants(kernel * kernel * channels, filters), constants(filters)
        window = None if seen.is_pixel else seen
        return self._add(Dense(name, self.x, y, weight, bias, ACCUM, 1, 1, window))

    def depthwise(self, kernel: int) -> Net:
        pad, channels = kernel // 2, self.x.channels
        name, y = self._made(self.x.shape)
        seen = Window((kernel, kernel), (1, 1), pad, pad, pad, pad)
        return self._add(Depthwise(name, self.x, y, constants(kernel**2, channels), constants(channels), ACCUM, 1, 1, seen))

    def recurrent(self, cell: Cell, units: int, reuse_factor: int = 1, *, sequences: bool = False) -> Net:
        """An LSTM or a GRU over the first dimension."""
        steps, channels = self.x.shape
        name, gates = self._made((steps, units * cell))
        gates = Tensor(f"{name}_gates", gates.shape, ACCUM)
        weight, bias = constants(channels, units * cell), constants(units * cell)
        self._add(Dense(name, self.x, gates, weight, bias, ACCUM, reuse_factor, reuse_factor))
        name, y = self._made((steps, units) if sequences else (units,))
        state, accum = (Tensor("s", (units,), kind) for kind in (KIND, ACCUM))
        values = Constants(np.full(1024, 1 << 11, dtype=np.int64), ACCUM.fraction)
        gate, act, late = (
            Table(name, x, accum, values, span, False, Constants(np.array([1]), 0))
            for x, span in ((accum, 4), (accum, 3), (state, 3))
        )
        return self._add(
            Recurrent(
                name, gates, y, constants(units, units * cell), bias, ACCUM, reuse_factor, reuse_factor, cell, sequences,
                gate, act, late,
            )
        )  # fmt: skip

    def relu(self) -> Net:
        name, y = self._made(self.x.shape)
        return self._add(Map(name, self.x, y, MapFunction.RELU, _NONE, _NONE))

    def scaled(self, function: MapFunction) -> Net:
        name, y = self._made(self.x.shape)
        channels = constants(self.x.channels)
        return self._add(Map(name, self.x, y, function, channels, channels))

    def table(self, gain: int = 0) -> Net:
        """A tabulated function, or an elu with the gain, in sixteenths."""
        name, y = self._made(self.x.shape)
        values = Constants(np.arange(64), KIND.fraction)
        return self._add(Table(name, self.x, y, values, 3, gain > 0, Constants(np.array([gain or 1]), 4)))

    def softmax(self) -> Net:
        name, y = self._made(self.x.shape)
        index = FixedPoint.with_fraction(10, 4, False)
        accum = FixedPoint.with_fraction(14, 10, True, Rounding.RND, Overflow.SAT)
        exponentials, inverses = (Constants(np.arange(64), 6) for _ in range(2))
        return self._add(Softmax(name, self.x, y, SoftmaxKind.STABLE, index, accum, accum, exponentials, inverses))

    def layernorm(self) -> Net:
        name, y = self._made(self.x.shape)
        accum = FixedPoint.with_fraction(14, 10, True, Rounding.RND_CONV, Overflow.SAT)
        scale, values = constants(self.x.channels), Constants(np.arange(64), 3)
        return self._add(LayerNorm(name, self.x, y, scale, scale, (1 << 10) // self.x.channels, accum, values, 0))

    def quantise(self) -> Net:
        """A type for each element of the last dimension."""
        name, y = self._made(self.x.shape)
        kinds = [FixedPoint.with_fraction(5 + at % 4, at % 3) for at in range(self.x.channels)]
        return self._add(Quantise(name, self.x, y, tuple(kinds * (self.x.size // self.x.channels))))

    def pool(self, size: int, stride: int, pad: int = 0) -> Net:
        seen = Window((size, size), (stride, stride), pad, pad, pad, pad)
        name, y = self._made((*window_shape(self.x, seen), self.x.channels))
        return self._add(Pool(name, self.x, y, PoolOperation.MAX, seen, KIND))

    def average(self) -> Net:
        name, y = self._made((self.x.channels,))
        return self._add(GlobalPool(name, self.x, y, PoolOperation.AVERAGE, ACCUM))

    def flat(self) -> Net:
        name, y = self._made((self.x.size,))
        return self._add(Reshape(name, self.x, y))

    def plus(self, other: Tensor) -> Net:
        name, y = self._made(self.x.shape)
        return self._add(Merge(name, self.x, other, y, MergeOperation.ADD))

    def product(self, other: Tensor) -> Net:
        name, y = self._made(self.x.shape)
        return self._add(Merge(name, self.x, other, y, MergeOperation.MULTIPLY))

    def times(self, other: Tensor, reuse_factor: int = 1) -> Net:
        """Each vector times each vector of another tensor."""
        name, y = self._made((self.x.shape[0], other.shape[0]))
        places = np.arange(other.size).reshape(1, *other.shape)
        return self._add(Matmul(name, self.x, other, y, ACCUM, reuse_factor, reuse_factor, places))

    def bottleneck(self, filters: int, stride: int, *, widen: bool) -> Net:
        source = self.x
        self.convolution(filters, 1, stride).relu().convolution(filters, 3).relu().convolution(4 * filters, 1)
        straight, self.x = self.x, source
        short = self.convolution(4 * filters, 1, stride).x if widen else source
        self.x = straight
        return self.plus(short).relu()

    def network(self, name: str) -> Network:
        return Network(name, (self.input,), (self.x,), tuple(self.layers))


def jets() -> Network:
    return Net(16).dense(64).relu().dense(32).relu().dense(32).relu().dense(5).network("jets")


def facile_v2() -> Network:
    net = Net(47)
    for width in (256, 64, 64, 31, 11):
        net.dense(width).relu()
    return net.dense(1).network("facile_v2")


def emtrk() -> Network:
    return Net(48, 48, 1).convolution(48, 5).relu().flat().dense(128).relu().dense(32).relu().dense(3).network("emtrk")


def separable() -> Network:
    return Net(24, 20, 6).convolution(8, 3, 2).relu().depthwise(3).pool(2, 2).average().dense(10).network("separable")


def recurrent() -> Network:
    net = Net(5, 3).recurrent(Cell.LSTM, 8, 16, sequences=True).recurrent(Cell.GRU, 6, 12, sequences=True)
    return net.recurrent(Cell.GRU, 4, 1, sequences=True).recurrent(Cell.LSTM, 4, 4).dense(3).network("recurrent")


def transformer() -> Network:
    net = Net(4, 6).layernorm()
    net.dense(6, 6).layernorm().times(net.input, 6)
    return net.times(net.x, 2).network("transformer")


def resnet50(stages: tuple[tuple[int, int], ...] = ((3, 64), (4, 128), (6, 256), (3, 512)), side: int = 224) -> Network:
    net = Net(side, side, 3).convolution(64, 7, 2).relu().pool(3, 2, 1)
    for stage, (blocks, filters) in enumerate(stages):
        for block in range(blocks):
            net.bottleneck(filters, 2 if stage and not block else 1, widen=not block)
    return net.average().dense(1000).network("resnet50")
