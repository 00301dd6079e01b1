# SPDX-License-Identifier: Apache-2.0
"""ResNet-8 in Keras as in MLPerf Tiny (v1): 16 filters, then stacks of 16, 32 and 64, 78 666 parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.resnet8 import events

PARAMETERS = 78_666
STACKS = (16, 32, 64)  # filters; all but the first halve the image
_MOMENTUM = 0.9  # of the running means, which must converge within a few hundred steps


def network() -> Any:
    """Build the network: (n, 32, 32, 3) -> probabilities (n, 10)."""
    _, tf_keras = keras_2.keras()
    layers = tf_keras.layers
    image = layers.Input((events.SIZE, events.SIZE, events.COLOURS), name="image")
    x = layers.ReLU(name="relu0")(_convolution(image, STACKS[0], 3, 1, "conv0"))
    for number, filters in enumerate(STACKS, 1):
        stride = 1 if number == 1 else 2
        y = layers.ReLU(name=f"relu{number}a")(_convolution(x, filters, 3, stride, f"conv{number}a"))
        y = _convolution(y, filters, 3, 1, f"conv{number}b")
        if stride > 1:
            x = layers.Conv2D(filters, 1, strides=stride, padding="same", name=f"short{number}")(x)
        x = layers.ReLU(name=f"relu{number}b")(layers.Add(name=f"add{number}")([x, y]))
    x = layers.Flatten(name="flatten")(layers.AveragePooling2D(8, name="pool")(x))
    x = layers.Activation("linear", name="widened")(layers.Dense(len(events.KINDS), name="logits")(x))  # see resnet8.yaml
    return tf_keras.Model(image, layers.Activation("softmax", name="probability")(x), name="resnet8")


def _convolution(x: Any, filters: int, size: int, stride: int, name: str) -> Any:
    """Append a convolution and its batch norm, which hls4ml folds into the convolution."""
    layers = keras_2.keras()[1].layers
    x = layers.Conv2D(filters, size, strides=stride, padding="same", kernel_initializer="he_normal", name=name)(x)
    return layers.BatchNormalization(momentum=_MOMENTUM, name=f"{name}_norm")(x)


def predict(model: Any, pixel: NDArray[Any]) -> NDArray[np.float64]:
    """Return the model's probabilities (n, 10) for pixels (n, 32, 32, 3) or (n, 3072)."""
    return keras_2.predict(model, events.network_inputs(pixel.reshape(-1, events.SIZE, events.SIZE, events.COLOURS)), 256)
