# SPDX-License-Identifier: Apache-2.0
"""The top tagger of arXiv:2207.00559 in Keras: an LSTM of 20 units over 20 particles of 6 numbers, dense layers of 64 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.jets import constituents
from hypersonic.hls.zoo.toptag import events

UNITS, HIDDEN = 20, 64
PARAMETERS = 3_569


def network() -> Any:
    """Build the network: particles (n, 20, 6) -> probability of a top quark (n, 1)."""
    _, tf_keras = keras_2.keras()
    layers = tf_keras.layers
    model = tf_keras.Sequential(name="toptag")
    model.add(layers.Input((events.PARTICLES, len(constituents.SEQUENCE_FEATURES)), name="particles"))
    model.add(layers.LSTM(UNITS, name="lstm"))
    model.add(layers.Dense(HIDDEN, activation="relu", name="hidden"))
    model.add(layers.Dense(1, activation="sigmoid", name="top"))
    return model


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the probabilities (n, 1) of rows (n, 20, 6)."""
    return keras_2.predict(model, events.network_inputs(rows))
