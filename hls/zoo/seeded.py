# SPDX-License-Identifier: Apache-2.0
"""Networks too large to ship: weights drawn from a seed, scaled until numbers keep their size from layer to layer, put on the
grids of the fabric's types; the last layer alone is fitted, so that what comes out says something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2

Array = NDArray[np.float32]
#: width and integer bits with sign, as in ap_fixed<width, integer>
Grid = tuple[int, int]

#: of the numbers in a tensor; what is beyond may saturate
_NEARLY_ALL = 0.999
_PASSES = 2


def on_grid(values: NDArray[Any], grid: Grid) -> Array:
    """The nearest numbers of that type."""
    width, integer = grid
    fraction = width - integer
    raw = np.clip(np.rint(np.ldexp(values.astype(np.float64), fraction)), -(1 << (width - 1)), (1 << (width - 1)) - 1)
    return np.asarray(np.ldexp(raw, -fraction), np.float32)


def layer_output(model: Any, name: str, inputs: Sequence[Array], batch: int = 64) -> Array:
    """What layer `name` makes of the inputs, which have equally many rows."""
    tf, tf_keras = keras_2.keras()
    part = tf_keras.Model(model.inputs, model.get_layer(name).output)
    run = tf.function(lambda x: part(x, training=False)) if len(inputs[0]) > batch else part
    pieces = ([x[begin : begin + batch] for x in inputs] for begin in range(0, len(inputs[0]), batch))
    return np.concatenate([np.asarray(run(piece if len(piece) > 1 else piece[0]), np.float32) for piece in pieces])


def spread(model: Any, inputs: Sequence[Array], grids: Mapping[str, Grid], size: float) -> None:
    """Scale each named layer's kernel, in this order, until nearly all it makes of `inputs` is within +-size.

    Kernels end on their grids; biases stay what they are. Rounding to a coarse grid changes sizes, hence several passes.
    """
    for name, grid in grids.items():
        layer = model.get_layer(name)
        kernel, *rest = layer.get_weights()
        factor = 1.0
        for _ in range(_PASSES):
            layer.set_weights([on_grid(kernel * factor, grid), *rest])
            reached = float(np.quantile(np.abs(layer_output(model, name, inputs)), _NEARLY_ALL))
            factor *= size / reached if reached > 0.0 else 2.0


def fit_last(
    features: Array, wanted: NDArray[Any], weights: NDArray[Any], grid: Grid, ridge: float = 1e-3
) -> tuple[Array, Array]:
    """Kernel (n, 1) on its grid and bias (1,) of the linear layer nearest to `wanted` (rows,), by weighted least squares.

    ridge: price of a weight, in units of the features' own mean square, so that no difference of large numbers is wanted.
    """
    x = np.column_stack([features.astype(np.float64), np.ones(len(features))]) * weights[:, None]
    square = x.T @ x
    price = ridge * np.trace(square[:-1, :-1]) / (len(square) - 1)
    solution = np.linalg.solve(square + price * np.diag([1.0] * (len(square) - 1) + [0.0]), x.T @ (wanted * weights))
    kernel = on_grid(solution[:-1, None], grid)
    bias = float(np.average(wanted - features.astype(np.float64) @ kernel[:, 0], weights=weights**2))
    return kernel, np.array([bias], np.float32)
