# SPDX-License-Identifier: Apache-2.0
"""A small network of convolutions whose weights may come at run time, and its core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from hypersonic.hls.core import Core
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Network, Tensor, WeightsIn, Window
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

KIND, ACCUM = FixedPoint.with_fraction(9, 4), FixedPoint.with_fraction(30, 12)


def layer(name: str, x: Tensor, n_out: int, reuse_factor: int, window: Window | None = None) -> Dense:
    """Weights of up to 7 bits, drawn by the layer's name."""
    rng = np.random.default_rng([*name.encode()])
    shape = (x.shape[0] - 2, x.shape[1] - 2, n_out) if window else (*x.shape[:-1], n_out)
    n_in = window.size * x.channels if window else x.channels
    weight = Constants(rng.integers(-64, 64, (n_in, n_out)), 5)
    bias = Constants(rng.integers(-64, 64, n_out), 5)
    return Dense(name, x, Tensor(f"{name}_y", shape, KIND), weight, bias, ACCUM, reuse_factor, reuse_factor, window)


def image_network(places: Mapping[str, WeightsIn]) -> Network:
    """A convolution of 24 words a pixel, a pointwise one of words wider than a beat, and one of words far narrower."""
    conv = layer("conv", Tensor("x", (6, 5, 4), KIND), 16, 24, Window((3, 3), (1, 1)))
    wide = layer("wide", conv.y, 12, 2)
    narrow = layer("narrow", wide.y, 6, 36)
    layers = tuple(replace(one, weights_in=places.get(one.name, WeightsIn.BRAM)) for one in (conv, wide, narrow))
    return Network("net", (conv.x,), (narrow.y,), layers)


def written(network: Network, directory: Path) -> Core:
    rows = [
        Row((TensorSpec(t.name, t.shape, FixedPoint(t.precision.width, t.precision.width - t.precision.fraction)),))
        for t in (network.inputs[0], network.outputs[0])
    ]
    core, _ = write_rf_core(network, "net", rows[0], rows[1], directory)
    return Core.load(directory) if core.weights else core
