# SPDX-License-Identifier: Apache-2.0
"""DeepClean's convolutional autoencoder in Keras: 21-8-16-32-64-32-16-8-21 channels, then one.

Convolutions span 7 samples. On the way down, each halves the number of samples. On the way up, upsampling doubles it before
each convolution. The published network uses transposed convolutions there, which hls4ml does not support; channels and lengths
are the same.
"""

from __future__ import annotations

from typing import Any

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepclean import events

DOWN, UP = (8, 16, 32, 64), (32, 16, 8, events.CHANNELS)
SIZE = 7  # samples that a convolution spans
PARAMETERS = 40_329


def network(*, samples: int = events.SAMPLES, seed: int = 1) -> Any:
    """Build the network: witnesses (n, samples, 21) -> noise (n, samples, 1), both times 2**events.EXPONENT.

    Args:
        samples: a multiple of 16; the weights do not depend on it.
        seed: of the initial weights.
    """
    _, tf_keras = keras_2.keras()
    keras_2.seed_weights(seed)
    layers = tf_keras.layers

    def convolution(x: Any, channels: int, name: str, stride: int = 1) -> Any:
        return layers.Conv1D(channels, SIZE, strides=stride, padding="same", name=name)(x)

    witness = layers.Input((samples, events.CHANNELS), name="witness")
    x = witness
    for i, channels in enumerate(DOWN):
        x = layers.ReLU(name=f"relu_down{i}")(convolution(x, channels, f"down{i}", 2))
    for i, channels in enumerate(UP):
        x = layers.UpSampling1D(2, name=f"double{i}")(x)
        x = layers.ReLU(name=f"relu_up{i}")(convolution(x, channels, f"up{i}"))
    return tf_keras.Model(witness, convolution(x, 1, "noise"), name="deepclean")
