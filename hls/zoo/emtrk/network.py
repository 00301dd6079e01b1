# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId in Keras with the published layers, 11 900 420 parameters; weights.py makes the weights.

48x48x1 -> 48 filters 5x5, ReLU -> 44x44x48 -> dropout -> 92 928 -> 128 -> dropout -> 32 -> softmax of 3 and sigmoid of 1.
Inputs and outputs are named as ProtoDUNE's model is in Triton.
"""

from __future__ import annotations

from typing import Any

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.emtrk import events

PARAMETERS = 11_900_420
FILTERS = 48


def network(filters: int = FILTERS, pool: int = 1, *, seed: int = 1) -> Any:
    """Build the network: (n, 48, 48, 1) -> em_trk_none_netout (n, 3) and michel_netout (n, 1).

    Args:
        pool: size of a pooling layer; 1 for none, as published.
        seed: of the initial weights.
    """
    _, tf_keras = keras_2.keras()
    keras_2.seed_weights(seed)
    layers = tf_keras.layers
    image = layers.Input((events.SIZE, events.SIZE, 1), name="main_input")
    x = layers.Conv2D(filters, 5, activation="relu", name="conv")(image)
    if pool > 1:
        x = layers.MaxPooling2D(pool, name="pool")(x)
    x = layers.Flatten(name="flatten")(layers.Dropout(0.2, name="dropout0")(x))
    x = layers.Dropout(0.2, name="dropout1")(layers.Dense(128, activation="relu", name="dense0")(x))
    x = layers.Dense(32, activation="relu", name="dense1")(x)
    logits = layers.Activation("linear", name="widened")(layers.Dense(len(events.KINDS), name="kind")(x))  # see emtrk.yaml
    kind = layers.Activation("softmax", name="em_trk_none_netout")(logits)
    michel = layers.Activation("sigmoid", name="michel_netout")(layers.Dense(1, name="michel")(x))
    return tf_keras.Model(image, [kind, michel], name="emtrk")
