# SPDX-License-Identifier: Apache-2.0
"""Images: convolutions, pools, and networks built from these. A docstring says where an architecture is from."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

Tensor = Any


def _convolved(x: Tensor, n: int, size: int = 3, strides: int = 1, relu: bool = True) -> Tensor:
    x = layers.BatchNormalization()(layers.Conv2D(n, size, strides, "same", use_bias=False)(x))
    return layers.ReLU()(x) if relu else x


def lenet() -> Any:
    """LeCun et al., Proc. IEEE 86 (1998) 2278, on images of 20 x 20."""
    parts = [
        layers.Conv2D(6, 5, activation="tanh"), layers.AveragePooling2D(2), layers.Conv2D(8, 5, activation="tanh"),
        layers.AveragePooling2D(2), layers.Flatten(), layers.Dense(20, "tanh"), layers.Dense(10, "softmax"),
    ]  # fmt: skip
    return keras.Sequential([keras.Input((20, 20, 1)), *parts])


def svhn() -> Any:
    """Aarrestad et al., arXiv:2101.05108, with fewer filters."""
    model = keras.Sequential([keras.Input((16, 16, 3))])
    for n in (8, 8):
        for layer in (layers.Conv2D(n, 3, use_bias=False), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(2)):
            model.add(layer)
    for layer in (layers.Flatten(), layers.Dense(16, use_bias=False), layers.BatchNormalization(), layers.ReLU()):
        model.add(layer)
    model.add(layers.Dense(10, "softmax"))
    return model


def resnet() -> Any:
    """Two blocks of He et al., arXiv:1512.03385."""
    given = keras.Input((10, 10, 3))
    x = _convolved(given, 6)
    x = layers.ReLU()(layers.add([x, _convolved(_convolved(x, 6), 6, relu=False)]))
    short = layers.Conv2D(8, 1, 2, "same")(x)
    x = layers.ReLU()(layers.add([short, _convolved(_convolved(x, 8, strides=2), 8, relu=False)]))
    return keras.Model(given, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


def mobilenet() -> Any:
    """Two blocks of Howard et al., arXiv:1704.04861, with ReLU6."""
    x = given = keras.Input((12, 12, 3))
    x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same", use_bias=False)(x)))
    for _ in range(2):
        x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)))
        x = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(8, 1, use_bias=False)(x)))
    x = layers.Dropout(0.1)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(given, layers.Dense(5, "softmax")(x))


def mobilenet_v3() -> Any:
    """A block of Howard et al., arXiv:1905.02244: hard-swish, squeeze and excitation."""
    given = keras.Input((8, 8, 4))
    x = layers.Activation("hard_silu")(layers.Conv2D(8, 1)(given))
    x = layers.Activation("hard_silu")(layers.DepthwiseConv2D(3, padding="same")(x))
    gate = layers.GlobalAveragePooling2D(keepdims=True)(x)
    gate = layers.Activation("hard_sigmoid")(layers.Conv2D(8, 1)(layers.Conv2D(4, 1, activation="relu")(gate)))
    x = layers.Conv2D(4, 1)(layers.multiply([x, gate]))
    return keras.Model(given, layers.Dense(3)(layers.GlobalAveragePooling2D()(layers.add([x, given]))))


def squeezenet() -> Any:
    """A fire module of Iandola et al., arXiv:1602.07360."""
    given = keras.Input((9, 9, 3))
    x = layers.MaxPooling2D(2)(layers.Conv2D(6, 2, activation="relu")(given))
    x = layers.Conv2D(4, 1, activation="relu")(x)
    sides = [layers.Conv2D(4, size, padding="same", activation="relu")(x) for size in (1, 3)]
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(5, 1)(layers.concatenate(sides)))
    return keras.Model(given, layers.Activation("softmax")(x))


def inception() -> Any:
    """A module of Szegedy et al., arXiv:1409.4842."""
    given = keras.Input((8, 8, 3))
    sides = [
        layers.Conv2D(3, 1, activation="relu")(given),
        layers.Conv2D(3, 3, padding="same", activation="relu")(layers.Conv2D(2, 1, activation="relu")(given)),
        layers.Conv2D(2, 5, padding="same", activation="relu")(layers.Conv2D(2, 1, activation="relu")(given)),
        layers.Conv2D(2, 1, activation="relu")(layers.MaxPooling2D(3, 1, padding="same")(given)),
    ]
    return keras.Model(given, layers.Dense(4)(layers.Flatten()(layers.MaxPooling2D(4)(layers.concatenate(sides)))))


def densenet() -> Any:
    """A block of Huang et al., arXiv:1608.06993."""
    given = keras.Input((8, 8, 2))
    x = layers.Conv2D(4, 3, padding="same")(given)
    for _ in range(2):
        y = layers.Conv2D(3, 3, padding="same")(layers.Activation("relu")(layers.BatchNormalization()(x)))
        x = layers.Concatenate()([x, y])
    return keras.Model(given, layers.Dense(3)(layers.GlobalMaxPooling2D()(x)))


def unet() -> Any:
    """One level of Ronneberger et al., arXiv:1505.04597, with an output for each pixel."""
    given = keras.Input((8, 8, 1))
    high = layers.Conv2D(4, 3, padding="same", activation="relu")(given)
    low = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(high))
    x = layers.concatenate([high, layers.UpSampling2D(2)(low)])
    return keras.Model(
        given, layers.Conv2D(1, 1, activation="sigmoid")(layers.Conv2D(4, 3, padding="same", activation="relu")(x))
    )


def squeeze_and_excitation() -> Any:
    """Hu et al., arXiv:1709.01507."""
    given = keras.Input((8, 8, 2))
    x = layers.Conv2D(6, 3, padding="same", activation="relu")(given)
    gate = layers.Dense(6, "sigmoid")(layers.Dense(3, "relu")(layers.GlobalAveragePooling2D()(x)))
    x = layers.multiply([x, layers.Reshape((1, 1, 6))(gate)])
    return keras.Model(given, layers.Dense(2)(layers.GlobalAveragePooling2D()(x)))


def keyword_spotting() -> Any:
    """A DS-CNN of Zhang et al., arXiv:1711.07128."""
    x = given = keras.Input((12, 8, 1))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, (5, 3), (2, 2), "same")(x)))
    x = layers.ReLU()(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(x)))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, 1)(x)))
    x = layers.Flatten()(layers.AveragePooling2D((6, 4))(x))
    return keras.Model(given, layers.Dense(4, "softmax")(x))


def eegnet() -> Any:
    """Lawhern et al., arXiv:1611.08024: depthwise filters over the electrodes, ELU, separable convolution."""
    x = given = keras.Input((4, 32, 1))
    x = layers.BatchNormalization()(layers.Conv2D(4, (1, 8), padding="same", use_bias=False)(x))
    x = layers.ELU()(layers.BatchNormalization()(layers.DepthwiseConv2D((4, 1), use_bias=False)(x)))
    x = layers.Dropout(0.2)(layers.AveragePooling2D((1, 4))(x))
    x = layers.ELU()(layers.BatchNormalization()(layers.SeparableConv2D(4, (1, 4), padding="same", use_bias=False)(x)))
    return keras.Model(given, layers.Dense(2, "softmax")(layers.Flatten()(layers.AveragePooling2D((1, 2))(x))))


def calorimeter_images() -> Any:
    """De Oliveira et al., arXiv:1511.05190: images of three layers of a calorimeter, each with a network of its own."""
    inputs = [keras.Input((6, 6, 1)) for _ in range(3)]
    sides = [layers.Flatten()(layers.LeakyReLU(0.1)(layers.Conv2D(3, 3)(each))) for each in inputs]
    return keras.Model(inputs, layers.Dense(1, "sigmoid")(layers.Dense(8, "relu")(layers.concatenate(sides))))


def rescaled_images() -> Any:
    """Keras' own tutorial of images: Rescaling from bytes, augmentation, convolutions."""
    parts = [layers.Rescaling(1 / 255), layers.RandomFlip(), layers.RandomRotation(0.1)]
    for n in (4, 8):
        parts += [layers.Conv2D(n, 3, padding="same", activation="relu"), layers.MaxPooling2D(2)]
    return keras.Sequential([keras.Input((12, 12, 3)), *parts, layers.Flatten(), layers.Dense(8, "relu"), layers.Dense(3)])


def global_context() -> Any:
    """A separable residual of Chollet, arXiv:1610.02357 (Xception)."""
    given = keras.Input((10, 10, 3))
    x = layers.SeparableConv2D(6, 3, padding="same", use_bias=False)(given)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    x = layers.MaxPooling2D(2)(layers.SeparableConv2D(6, 3, padding="same")(x))
    return keras.Model(given, layers.Dense(3)(layers.Flatten()(layers.add([x, layers.Conv2D(6, 1, 2)(given)]))))


def transposed() -> Any:
    """The decoder of a convolutional autoencoder with Conv2DTranspose, Radford et al., arXiv:1511.06434."""
    x = layers.Reshape((3, 3, 4))(layers.Dense(36, "relu")(given := keras.Input((5,))))
    return keras.Model(given, layers.Conv2DTranspose(1, 2, 2, activation="sigmoid")(x))


def vision_transformer() -> Any:
    """Dosovitskiy et al., arXiv:2010.11929: patches, one block with the normalisation first."""
    given = keras.Input((12, 12, 1))
    x = layers.Reshape((9, 8))(layers.Conv2D(8, 4, 4)(given))
    y = layers.LayerNormalization()(x)
    x = layers.add([x, layers.MultiHeadAttention(2, 4)(y, y)])
    y = layers.Dense(8)(layers.Dense(16, "gelu")(layers.LayerNormalization()(x)))
    return keras.Model(given, layers.Dense(4)(layers.GlobalAveragePooling1D()(layers.add([x, y]))))
