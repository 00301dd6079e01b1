# SPDX-License-Identifier: Apache-2.0
"""Weights for networks that are too large to ship: drawn from a seed, scaled so that activations keep their size from layer to
layer, and rounded to the fabric's types. Only the last layer is fitted, so that the output carries information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2

Array = NDArray[np.float32]
#: width and integer bits (including the sign), as in ap_fixed<width, integer>
Grid = tuple[int, int]

#: fraction of a tensor's values that must be in range; the others may saturate
_NEARLY_ALL = 0.999
_PASSES = 2


def on_grid(values: NDArray[Any], grid: Grid) -> Array:
    """Return the nearest numbers of the type `grid`, ties to even, saturated (float32, the shape of `values`)."""
    width, integer = grid
    fraction = width - integer
    raw = np.clip(np.rint(np.ldexp(values.astype(np.float64), fraction)), -(1 << (width - 1)), (1 << (width - 1)) - 1)
    return np.asarray(np.ldexp(raw, -fraction), np.float32)


def layer_output(model: Any, name: str, inputs: Sequence[Array], batch: int = 64) -> Array:
    """Return the output of layer `name` (float32) for these inputs, which have the same number of rows.

    Args:
        batch: rows per call of the model.
    """
    tf, tf_keras = keras_2.keras()
    part = tf_keras.Model(model.inputs, model.get_layer(name).output)
    run = tf.function(lambda x: part(x, training=False)) if len(inputs[0]) > batch else part
    pieces = ([x[begin : begin + batch] for x in inputs] for begin in range(0, len(inputs[0]), batch))
    return np.concatenate([np.asarray(run(piece if len(piece) > 1 else piece[0]), np.float32) for piece in pieces])


def spread(model: Any, inputs: Sequence[Array], grids: Mapping[str, Grid], size: float) -> None:
    """Scale the kernel of each named layer, in this order, until 99.9 % of its outputs for `inputs` are within +-size.

    Biases are left unchanged. Rounding to a coarse grid changes the outputs' size, hence several passes.

    Args:
        grids: layer name -> type to which its kernel is rounded.
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
    """Fit a linear layer with one output by weighted least squares; return its kernel (n, 1), on `grid`, and its bias (1,).

    Args:
        features: (rows, n).
        wanted: (rows,), the target.
        weights: (rows,), which multiply the residuals.
        ridge: penalty on the kernel in units of the features' mean square, which keeps the fit from subtracting large numbers
            from each other.
    """
    x = np.column_stack([features.astype(np.float64), np.ones(len(features))]) * weights[:, None]
    square = x.T @ x
    price = ridge * np.trace(square[:-1, :-1]) / (len(square) - 1)
    solution = np.linalg.solve(square + price * np.diag([1.0] * (len(square) - 1) + [0.0]), x.T @ (wanted * weights))
    kernel = on_grid(solution[:-1, None], grid)
    bias = float(np.average(wanted - features.astype(np.float64) @ kernel[:, 0], weights=weights**2))
    return kernel, np.array([bias], np.float32)
