# SPDX-License-Identifier: Apache-2.0
"""An interaction network in Keras, as in arXiv:1612.00222 and, for jets, arXiv:1908.05318.

Each of the 56 ordered pairs of hits gets a vector from both hits; each hit adds the vectors of its seven pairs and becomes a
new vector; the sum over all hits decides. Only layers that hls4ml supports are used: constant dense layers over the transposed
matrices pick a pair's two hits and add a hit's pairs. The first layer of the pairs' network is linear before its ReLU, so it is
applied to the eight hits instead of the 56 pairs.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.showers import events

PAIRS = tuple(permutations(range(events.HITS), 2))
PAIR_UNITS, PAIR_VECTOR, HIT_UNITS, HEAD_UNITS = 8, 6, 12, 16


def network() -> Any:
    """Build the network: hits (n, 8, 4) -> logit of an electron (n, 1)."""
    _, tf_keras = keras_2.keras()
    layers = tf_keras.layers

    def dense(x: Any, units: int, name: str, activation: str | None = "relu", bias: bool = True) -> Any:
        return layers.Dense(units, activation=activation, use_bias=bias, name=name)(x)

    def by_pairs(x: Any, which: int, name: str) -> Any:
        """Give each pair the vector of its first or second hit, as a matrix (units, pairs)."""
        kernel = np.zeros((events.HITS, len(PAIRS)), np.float32)
        kernel[[pair[which] for pair in PAIRS], range(len(PAIRS))] = 1.0
        return _constant(layers.Permute((2, 1), name=f"{name}_turned")(x), kernel, name)

    given = layers.Input((events.HITS, events.FEATURES), name="hits")
    to, fro = dense(given, PAIR_UNITS, "to", None), dense(given, PAIR_UNITS, "from", None, bias=False)
    pairs = layers.Add(name="both")([by_pairs(to, 0, "receivers"), by_pairs(fro, 1, "senders")])
    pairs = layers.Permute((2, 1), name="pairs")(layers.ReLU(name="pair_relu")(pairs))
    pairs = dense(pairs, PAIR_VECTOR, "pair")
    sums = np.zeros((len(PAIRS), events.HITS), np.float32)
    sums[range(len(PAIRS)), [pair[0] for pair in PAIRS]] = 1.0
    received = _constant(layers.Permute((2, 1), name="pair_turned")(pairs), sums, "received")
    hits = layers.Concatenate(name="hit_and_pairs")([given, layers.Permute((2, 1), name="by_hit")(received)])
    hits = dense(dense(hits, HIT_UNITS, "hit0"), HIT_UNITS, "hit1")
    every = _constant(layers.Permute((2, 1), name="hit_turned")(hits), np.ones((events.HITS, 1), np.float32), "every")
    head = dense(layers.Flatten(name="vector")(every), HEAD_UNITS, "head")
    return tf_keras.Model(given, dense(head, 1, "electron", None), name="showers")


def _constant(x: Any, kernel: NDArray[np.float32], name: str) -> Any:
    """Apply a dense layer with this kernel, which is not trained."""
    _, tf_keras = keras_2.keras()
    layer = tf_keras.layers.Dense(kernel.shape[1], use_bias=False, trainable=False, name=name)
    output = layer(x)
    layer.set_weights([kernel])
    return output


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the logits (n, 1) of rows (n, 8, 4) in wire units."""
    return keras_2.predict(model, events.network_inputs(rows))
