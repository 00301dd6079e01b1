# SPDX-License-Identifier: Apache-2.0
"""Small networks for the rf core, random or of one layer, and a helper that writes and lints them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.core import Core
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Layer, Network, Tensor, Window
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.global_pool import GlobalPool
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.layers.pool import Pool, PoolOperation
from hypersonic.hls.network.layers.quantise import Quantise
from hypersonic.hls.network.layers.upsample import Upsample
from hypersonic.hls.network.layers.zero_pad import ZeroPad
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.verilator import lint

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction


# ---------------------------------------------------------------- whole cores
def kind(rng: np.random.Generator, widest: int = 18) -> FixedPoint:
    width, signed = int(rng.integers(1, widest)), bool(rng.integers(2))
    modes = Rounding(rng.choice(list(Rounding))), Overflow(rng.choice(list(Overflow)))
    return fixed_point(width + signed, int(rng.integers(-3, width + 4)), signed, *modes)


def network(seed: int) -> Network:
    """Layers on images of 3x3, each behind one of the last three before it; all tensors that nobody reads leave."""
    rng = np.random.default_rng(seed)
    tensors = [Tensor("input_1", (3, 3, 1), fixed_point(9, 4)), Tensor("input_2", (3, 3, 1), fixed_point(5, 6, False))]
    inputs, layers = tuple(tensors), list[Layer]()

    def numbers(*shape: int) -> Constants:
        return Constants(rng.integers(-9, 10, shape), int(rng.integers(0, 5)))

    def accum(x: Tensor) -> FixedPoint:
        return fixed_point(int(rng.integers(2, 30)), x.precision.fraction + int(rng.integers(3)), bool(rng.integers(2)))

    def layer(name: str, x: Tensor, other: Tensor) -> Layer:
        def y(*shape: int) -> Tensor:
            return Tensor(name, shape, kind(rng))

        match int(rng.integers(10)):
            case 0:
                return Merge(name, x, other, y(3, 3, 1), MergeOperation(rng.choice(list(MergeOperation))))
            case 1:
                seen = Window((3, 3), (1, 1), 1, 1, 1, 1)
                return Dense(name, x, y(3, 3, 1), numbers(9, 1), numbers(1), fixed_point(30, 12), 3, 3, seen)
            case 2:
                seen = Window((2, 2), (1, 1), 0, 1, 0, 1)
                return Pool(name, x, y(3, 3, 1), PoolOperation(rng.choice(list(PoolOperation))), seen, accum(x))
            case 3:
                mode = rng.choice([Overflow.WRAP, Overflow.SAT])
                types = [FixedPoint(int(w), int(i), True, Rounding.RND, mode) for w, i in rng.integers(1, 9, (9, 2))]
                return Quantise(name, x, y(3, 3, 1), (None, *types[1:]))
            case _:
                function = MapFunction(rng.choice(list(MapFunction)))
                return Map(name, x, y(3, 3, 1), function, numbers(1), numbers(1))

    for number in range(12):
        x, other = (tensors[int(rng.integers(max(0, len(tensors) - 3), len(tensors)))] for _ in "xo")
        layers.append(layer(f"layer_{number}", x, other))
        tensors.append(layers[-1].y)
    joined = Concatenate("join", tensors[-1], tensors[-2], Tensor("join", (3, 3, 2), kind(rng)), 2)
    pooled = GlobalPool("pool", joined.y, Tensor("pool", (2,), kind(rng)), PoolOperation.AVERAGE, accum(joined.y))
    up = Upsample("up", joined.y, Tensor("up", (6, 6, 2), joined.y.precision), (2, 2))
    pad = ZeroPad("pad", up.y, Tensor("pad", (7, 7, 2), joined.y.precision), (1, 0, 0, 1))
    layers += [joined, pooled, up, pad]
    unread = [one.y for one in layers if one.y.name not in read(layers)]
    return Network("net", inputs, tuple(unread), tuple(layers))


def read(layers: Sequence[Layer]) -> set[str]:
    return {tensor.name for layer in layers for tensor in layer.inputs}


def clean(drawn: Network, name: str, directory: Path) -> Core:
    """Write its core and lint it."""
    x, y = (
        Row(tuple(TensorSpec(t.name, t.shape, t.precision.checked()) for t in side)) for side in (drawn.inputs, drawn.outputs)
    )
    core = write_rf_core(drawn, name, x, y, directory, 1 << 20)[0]
    lint(core.sources, core.top)
    return core


def single(layer: Any) -> Network:
    return Network("net", (layer.x,), (layer.y,), (layer,))
