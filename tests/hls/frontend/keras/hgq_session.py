# SPDX-License-Identifier: Apache-2.0
"""Models of HGQ2 with drawn bit widths: python tests/hls/frontend/keras/hgq_session.py DIRECTORY. It needs HGQ2 on PYTHONPATH.

Writes each model and rows for it, <model>.npy: tagger.keras has an einsum with weights for each vector, a residual connection
and two outputs, image.h5 is a Sequential with a convolution and a softmax, attention.keras the two heads of a transformer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from hgq.config import QuantizerConfigScope
from hgq.layers import QAdd, QBatchNormalization, QConv2D, QDense, QEinsumDense, QMultiHeadAttention, QSoftmax
from hgq.utils import trace_minmax


def drawn(model: Any, rows: Any, seed: int) -> Any:
    """Give every parameter and activation a width of its own, weights that use it, and ranges that hold the rows' numbers."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        kind = variable.path.rsplit("/", 1)[-1]
        if kind in ("b", "f"):
            change = rng.integers(-3, 2, variable.shape)
            variable.assign(np.maximum(np.asarray(variable) + change, 0 if kind == "f" else 1))
        elif kind in ("kernel", "bias", "gamma", "beta", "moving_mean"):
            variable.assign(rng.normal(0, 0.6, variable.shape))
    trace_minmax(model, rows)
    return model


def tagger() -> tuple[Any, Any]:
    given = keras.Input((3, 2), name="constituents")
    x = QEinsumDense("bij,ijk->bki", (2, 3), bias_axes="ki", activation="relu", name="mixed")(given)
    x = QDense(8, activation="relu", name="first")(keras.layers.Flatten()(x))
    y = QBatchNormalization(name="normalised")(x)
    y = QAdd(name="residual")([x, QDense(8, name="second")(y)])
    rows = np.random.default_rng(1).normal(size=(400, 3, 2)).astype(np.float32)
    return keras.Model(given, [QDense(3, name="scores")(y), QDense(1, name="mass")(x)]), rows


def image() -> tuple[Any, Any]:
    layers = [QConv2D(3, 3, activation="relu"), keras.layers.MaxPooling2D(2), keras.layers.Flatten(), QDense(4)]
    rows = np.random.default_rng(2).normal(size=(200, 6, 6, 2)).astype(np.float32)
    return keras.Sequential([keras.Input((6, 6, 2)), *layers, QSoftmax(name="classes")]), rows


def attention() -> tuple[Any, Any]:
    given = keras.Input((3, 2))
    x = QEinsumDense("bij,jk->bik", (3, 2), bias_axes="k", activation="relu")(given)
    x = QAdd()([x, QMultiHeadAttention(2, 1)(x, x)])
    rows = np.random.default_rng(3).normal(size=(200, 3, 2)).astype(np.float32)
    return keras.Model(given, QDense(2, name="flavours")(keras.layers.Flatten()(x))), rows


def main(directory: Path) -> None:
    keras.utils.set_random_seed(4)
    scopes = (
        QuantizerConfigScope(place="all", default_q_type="kbi", overflow_mode="SAT_SYM"),
        QuantizerConfigScope(place="datalane", default_q_type="kif", overflow_mode="WRAP"),
    )
    with scopes[0], scopes[1]:
        for seed, make in enumerate((tagger, image, attention)):
            model, rows = make()
            drawn(model, rows, seed).save(directory / f"{make.__name__}.{'h5' if make is image else 'keras'}")
            np.save(directory / f"{make.__name__}.npy", rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
