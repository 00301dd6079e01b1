# SPDX-License-Identifier: Apache-2.0
"""A da core for the ledger: two dense layers, 16 to 8 to 5, with a ReLU between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hypersonic.hls.core import Core
from hypersonic.hls.da.write import write_core
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

_INPUT, _HIDDEN, _OUTPUT = FixedPoint(16, 6), FixedPoint(10, 4, False, Rounding.RND_CONV, Overflow.SAT), FixedPoint(24, 12)
_SUMS = FixedPoint(28, 13)
_NONE = Constants(np.zeros(0, dtype=np.int64), 0)


def write_dense_core(directory: Path) -> Core:
    """Write the core's files into `directory`, under the name da_dense, and return the core."""
    x, first, hidden, y = (
        Tensor(name, (size,), precision)
        for name, size, precision in (("x", 16, _INPUT), ("first", 8, _SUMS), ("hidden", 8, _HIDDEN), ("y", 5, _OUTPUT))
    )
    layers = (
        Dense("dense", x, first, _weights(16, 8), _biases(8), _SUMS, 1, 1),
        Map("relu", first, hidden, MapFunction.RELU, _NONE, _NONE),
        Dense("result", hidden, y, _weights(8, 5), _biases(5), _SUMS, 1, 1),
    )
    inputs, outputs = (Row((TensorSpec(tensor.name, tensor.shape, tensor.precision, "INT32"),)) for tensor in (x, y))
    return write_core(Network("da_dense", (x,), (y,), layers), "da_dense", inputs, outputs, directory)[0]


def _weights(n_in: int, n_out: int) -> Constants:
    """Numbers of six bits, of which a third is zero, as in a network that was pruned."""
    random = np.random.default_rng(n_in)
    return Constants(random.integers(-31, 32, (n_in, n_out)) * (random.random((n_in, n_out)) > 1 / 3), 5)


def _biases(n: int) -> Constants:
    return Constants(np.random.default_rng(n).integers(-31, 32, n), 5)
