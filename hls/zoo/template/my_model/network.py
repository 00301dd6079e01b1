# SPDX-License-Identifier: Apache-2.0
"""The layers in QKeras: 16-16-1 with ReLU, 289 parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.template.my_model import events

UNITS = 16
PARAMETERS = 289
#: QKeras' (bits, integer bits without the sign)
WEIGHT, BIAS, ACTIVATION = (8, 1), (12, 3), (10, 4)


def network() -> Any:
    """Build the tf_keras model: samples (n, 16) -> height (n, 1)."""
    _, tf_keras = keras_2.keras()
    import qkeras

    types = {
        "kernel_quantizer": qkeras.quantized_bits(*WEIGHT, alpha=1),
        "bias_quantizer": qkeras.quantized_bits(*BIAS, alpha=1),
    }
    samples = tf_keras.layers.Input((events.SAMPLES,), name="samples")
    x = qkeras.QDense(UNITS, name="dense0", **types)(samples)
    x = qkeras.QActivation(qkeras.quantized_relu(*ACTIVATION), name="relu0")(x)
    return tf_keras.Model(samples, qkeras.QDense(1, name="height", **types)(x), name="my_model")


def predict(model: Any, samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the heights (n, 1) that the model gives for samples (n, 16)."""
    return keras_2.predict(model, samples)


def loss(height: Any, output: Any) -> Any:
    """Mean squared error of a batch: height (n,), output (n, 1)."""
    tf, _ = keras_2.keras()
    return tf.reduce_mean(tf.square(output[:, 0] - height))
