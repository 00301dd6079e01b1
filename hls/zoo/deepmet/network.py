# SPDX-License-Identifier: Apache-2.0
"""DeepMET in Keras with the published layers, 5 373 parameters.

Each candidate's 8 features are concatenated with three embeddings of size 8 and pass dense layers 32 -> 64 -> 32 -> 16 with
tanh and batch norm. Two more layers give a weight (with a batch norm of its own) and two offsets. weight * (px, py) + offsets
is averaged over the candidates and passes a dense layer of 2. Only layers that hls4ml supports are used: a constant dense layer
selects px and py from the features; its 16 zeros and ones are not counted as parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepmet import events

PARAMETERS = 5_373
SELECT_PARAMETERS = 16  # of the constant layer that selects px and py
EMBEDDING = 8
UNITS = (64, 32, 16)
MAX_OFFSET = 1e-4  # largest norm of a column of the offsets' kernel, and of their biases


def network(candidates: int = events.CANDIDATES, *, seed: int = 1) -> Any:
    """Build the network: input_cat0 to input_cat2 (n, candidates), features (n, candidates, 8) -> met (n, 2).

    met is px and py of the missing momentum in units of events.SCALE_GEV. The shapes of the weights do not depend on
    `candidates`, so that a network trained on fewer runs on 4500 (resized). Initially offsets are zero and weights near one,
    which gives the sum of all momenta.
    """
    _, tf_keras = keras_2.keras()
    keras_2.seed_weights(seed)
    layers = tf_keras.layers
    features = layers.Input((candidates, len(events.FEATURES)), name="features")
    categories = [layers.Input((candidates,), name=f"input_cat{i}") for i in range(len(events.CATEGORIES))]
    x = features
    for i, (category, size) in enumerate(zip(categories, events.CATEGORIES, strict=True)):
        embedded = layers.Embedding(size, EMBEDDING, name=f"embedding{i}")(category)
        x = layers.Concatenate(name=f"with_category{i}")([x, embedded])
    for i, units in enumerate(UNITS):
        x = layers.Dense(units, activation="tanh", name=f"dense{i}")(x)
        x = layers.BatchNormalization(name=f"norm{i}")(x)
    near_one = {"gamma_initializer": tf_keras.initializers.Constant(0.1), "beta_initializer": "ones"}
    weight = layers.BatchNormalization(name="weight_norm", **near_one)(layers.Dense(1, name="weight")(x))
    pair = layers.Concatenate(name="weights")([weight, weight])
    momentum = layers.Dense(2, use_bias=False, trainable=False, name="px_py")
    weighted = layers.Multiply(name="weighted")([pair, momentum(features)])
    momentum.set_weights([np.eye(len(events.FEATURES), dtype=np.float32)[:, 6:8]])
    # thousands of offsets are added, so that a small change by training or rounding has a large effect on the sum
    small = {f"{what}_constraint": tf_keras.constraints.MaxNorm(MAX_OFFSET) for what in ("kernel", "bias")}
    offset = layers.Dense(2, kernel_initializer="zeros", name="offset", **small)(x)
    mean = layers.GlobalAveragePooling1D(name="all")(layers.Add(name="shifted")([weighted, offset]))
    output = layers.Dense(2, name="met")
    model = tf_keras.Model([*categories, features], output(mean), name="deepmet")
    output.set_weights([-candidates * np.eye(2, dtype=np.float32), np.zeros(2, np.float32)])
    return model


def resized(model: Any, candidates: int = events.CANDIDATES) -> Any:
    """Return the network for another number of candidates; its last layer compensates for the longer average."""
    before = model.get_layer("features").output.shape[1]
    other = network(candidates)
    other.set_weights(model.get_weights())
    kernel, bias = other.get_layer("met").get_weights()
    other.get_layer("met").set_weights([kernel * (candidates / before), bias])
    return other
