# SPDX-License-Identifier: Apache-2.0
"""The autoencoder in Keras, 57-32-16-3-16-32-57 as in arXiv:2108.03986, followed by the error of its reconstruction.

The kernel's output is the score itself: the sum of the squared differences between the inputs and their
reconstruction. A constant dense layer adds the squares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.anomaly import events

UNITS = (32, 16, 3, 16, 32)


def network() -> Any:
    """Build the network: objects (n, 57) -> score (n, 1)."""
    _, tf_keras = keras_2.keras()
    layers = tf_keras.layers
    given = layers.Input((events.INPUTS,), name="objects")
    x = given
    for i, units in enumerate(UNITS):
        # the three numbers in the middle may have either sign
        activation = None if units == min(UNITS) else "relu"
        x = layers.Dense(units, activation=activation, kernel_initializer="he_uniform", name=f"dense{i}")(x)
    seen_again = layers.Dense(events.INPUTS, name="seen_again")(x)
    difference = layers.Subtract(name="difference")([given, seen_again])
    square = layers.Multiply(name="square")([difference, difference])
    total = layers.Dense(1, use_bias=False, trainable=False, kernel_initializer="ones", name="score")
    return tf_keras.Model(given, total(square), name="anomaly")


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the scores (n, 1) of rows (n, 57) in wire units."""
    return keras_2.predict(model, events.network_inputs(rows))
