# SPDX-License-Identifier: Apache-2.0
"""DeepClean's convolutional autoencoder in Keras and QKeras: 21-8-16-32-64-32-16-8-21 channels, then one.

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
WEIGHT, ACTIVATION = (16, 1), (16, 1)  # ap_fixed<16,2>, as published, as QKeras' arguments


def network(*, samples: int = events.SAMPLES, seed: int = 1, quantised: bool = False) -> Any:
    """Build the network: witnesses (n, samples, 21) -> noise (n, samples, 1), both times 2**events.EXPONENT.

    samples: a multiple of 16; the weights do not depend on it. seed: of the initial weights. quantised: QKeras layers.
    """
    _, tf_keras = keras_2.keras()
    keras_2.seed_weights(seed)
    layers = tf_keras.layers
    witness = layers.Input((samples, events.CHANNELS), name="witness")
    x = witness
    for i, channels in enumerate(DOWN):
        x = _relu(_convolution(x, channels, f"down{i}", 2, quantised=quantised), f"relu_down{i}", quantised=quantised)
    for i, channels in enumerate(UP):
        x = layers.UpSampling1D(2, name=f"double{i}")(x)
        x = _relu(_convolution(x, channels, f"up{i}", 1, quantised=quantised), f"relu_up{i}", quantised=quantised)
    noise = _convolution(x, 1, "noise", 1, quantised=quantised)
    return tf_keras.Model(witness, noise, name="deepclean")


def _convolution(x: Any, channels: int, name: str, stride: int, *, quantised: bool) -> Any:
    options = {"strides": stride, "padding": "same", "name": name}
    if not quantised:
        return keras_2.keras()[1].layers.Conv1D(channels, SIZE, **options)(x)
    import qkeras

    types = {f"{what}_quantizer": qkeras.quantized_bits(*WEIGHT, alpha=1) for what in ("kernel", "bias")}
    return qkeras.QConv1D(channels, SIZE, **options, **types)(x)


def _relu(x: Any, name: str, *, quantised: bool) -> Any:
    if not quantised:
        return keras_2.keras()[1].layers.ReLU(name=name)(x)
    import qkeras

    return qkeras.QActivation(qkeras.quantized_relu(*ACTIVATION), name=name)(x)
