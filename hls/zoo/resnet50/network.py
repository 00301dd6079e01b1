# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 v1 (He et al.) in Keras: 25 636 712 parameters, drawn from a seed and not trained.

The stride is in a block's first convolution, as in Keras' own ResNet-50. The max pooling before the first stage is 2 x 2
instead of 3 x 3, because hls4ml's streams do not support overlapping pooling. The outputs are the logits, as in FaaST's cloud
model ("output/BiasAdd"). The batch norms get the means and variances of a few seeded images, so that the activations of every
layer have about unit width, as in a trained network, and fit 8 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.resnet50 import events
from hypersonic.hls.zoo.resnet50.events import COLOURS, SIZE

PARAMETERS = 25_636_712
CLASSES = 1000
#: (blocks, filters) of each stage; a block has four times as many output channels; all stages but the first halve the image
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
IMAGES = 2  # images that set the batch norms


def network(*, seed: int = 1) -> Any:
    """Build the network: (n, 224, 224, 3) -> logits (n, 1000). The same seed gives the same weights on the same machine."""
    model = drawn(seed=seed)
    settle(model, events.images(IMAGES, seed))
    return model


def drawn(*, seed: int = 1) -> Any:
    """Build the network with its batch norms not yet set."""
    _, tf_keras = keras_2.keras()
    keras_2.seed_weights(seed)
    layers = tf_keras.layers
    image = layers.Input((SIZE, SIZE, COLOURS), name="image")
    x = layers.ZeroPadding2D(3, name="pad0")(image)
    x = layers.ReLU(name="relu0")(_convolution(x, 64, 7, 2, "conv0"))
    x = layers.MaxPooling2D(2, name="pool0")(x)
    for stage, (blocks, filters) in enumerate(STAGES, 1):
        for number in range(blocks):
            stride = 2 if stage > 1 and number == 0 else 1
            x = block(x, filters, stride, f"s{stage}b{number + 1}", widen=number == 0)
    x = layers.Dense(CLASSES, name="logits")(layers.GlobalAveragePooling2D(name="pool")(x))
    return tf_keras.Model(image, x, name="resnet50")


def block(x: Any, filters: int, stride: int, name: str, *, widen: bool) -> Any:
    """Append a block: convolutions 1x1, 3x3 and 1x1, plus a shortcut, which is a 1x1 convolution if `widen` is set."""
    layers = keras_2.keras()[1].layers
    y = layers.ReLU(name=f"{name}_relu1")(_convolution(x, filters, 1, stride, f"{name}_conv1"))
    y = layers.ReLU(name=f"{name}_relu2")(_convolution(y, filters, 3, 1, f"{name}_conv2"))
    y = _convolution(y, 4 * filters, 1, 1, f"{name}_conv3")
    if widen:
        x = _convolution(x, 4 * filters, 1, stride, f"{name}_short")
    return layers.ReLU(name=f"{name}_relu3")(layers.Add(name=f"{name}_add")([x, y]))


def _convolution(x: Any, filters: int, size: int, stride: int, name: str) -> Any:
    """Append a convolution and its batch norm, which hls4ml folds into the convolution."""
    layers = keras_2.keras()[1].layers
    padding = "valid" if size == 7 else "same"  # its padding is a layer of its own, three pixels on each side
    x = layers.Conv2D(filters, size, strides=stride, padding=padding, kernel_initializer="he_normal", name=name)(x)
    return layers.BatchNormalization(momentum=0.0, name=f"{name}_norm")(x)


def settle(model: Any, x: NDArray[np.float32]) -> None:
    """Set every batch norm's mean and variance, in place, to those of these inputs; momentum 0 makes one call enough."""
    model(x, training=True)
