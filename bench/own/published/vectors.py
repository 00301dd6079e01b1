# SPDX-License-Identifier: Apache-2.0
"""Vectors: dense networks. A docstring says where an architecture is from."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers


def jet_tagger() -> Any:
    """Duarte et al., arXiv:1804.06913."""
    return keras.Sequential(
        [keras.Input((16,)), *(layers.Dense(n, "relu") for n in (64, 32, 32)), layers.Dense(5, activation="softmax")]
    )


def jet_tagger_normalised() -> Any:
    """The same with batch normalisation and dropout before each activation."""
    model = keras.Sequential([keras.Input((16,))])
    for n in (32, 16):
        for layer in (layers.Dense(n), layers.BatchNormalization(), layers.Activation("relu"), layers.Dropout(0.2)):
            model.add(layer)
    model.add(layers.Dense(5))
    return model


def anomaly_autoencoder() -> Any:
    """Govorkova et al., arXiv:2108.03986."""
    x = given = keras.Input((57,))
    for n in (32, 16, 3, 16, 32):
        x = layers.LeakyReLU()(layers.BatchNormalization()(layers.Dense(n)(x)))
    return keras.Model(given, layers.Dense(57)(x))


def variational_encoder() -> Any:
    """The encoder of a variational autoencoder, Kingma and Welling, arXiv:1312.6114."""
    given = keras.Input((20,))
    x = layers.Dense(16, "tanh")(given)
    return keras.Model(given, [layers.Dense(4)(x), layers.Dense(4)(x)])


def deep_and_cross() -> Any:
    """Wang et al., arXiv:1708.05123."""
    given = keras.Input((10,))
    x = given
    for _ in range(2):
        x = layers.add([layers.multiply([given, layers.Dense(10)(x)]), x])
    deep = layers.Dense(8, "relu")(layers.Dense(16, "relu")(given))
    return keras.Model(given, layers.Dense(1, "sigmoid")(layers.concatenate([x, deep])))


def wide_and_deep() -> Any:
    """Cheng et al., arXiv:1606.07792."""
    wide, deep = keras.Input((6,)), keras.Input((5,))
    x = layers.Dense(8, "relu")(layers.BatchNormalization()(deep))
    return keras.Model([wide, deep], layers.Dense(1)(layers.concatenate([wide, x])))


def siamese() -> Any:
    """Bromley et al., Signature verification using a siamese network (NIPS 1993)."""
    encoder = keras.Sequential([keras.Input((8,)), layers.Dense(12, "relu"), layers.Dense(4)])
    a, b = keras.Input((8,)), keras.Input((8,))
    return keras.Model([a, b], layers.Dense(1, "sigmoid")(layers.Subtract()([encoder(a), encoder(b)])))


def highway() -> Any:
    """Srivastava et al., arXiv:1505.00387."""
    given = keras.Input((8,))
    x, gate = layers.Dense(8, "relu")(given), layers.Dense(8, "sigmoid")(given)
    return keras.Model(given, layers.Dense(2)(x * gate + given * (1.0 - gate)))


def self_normalising() -> Any:
    """Klambauer et al., arXiv:1706.02515."""
    parts = [layers.Dense(n, "selu", kernel_initializer="lecun_normal") for n in (16, 8)]
    return keras.Sequential([keras.Input((12,)), *parts, layers.AlphaDropout(0.1), layers.Dense(1)])


def tabular_regression() -> Any:
    """Keras' own tutorial of regression: a Normalization that was adapted, then two dense layers."""
    normal = layers.Normalization()
    normal.adapt(np.random.default_rng(1).normal(3, 5, (100, 9)).astype(np.float32))
    return keras.Sequential([keras.Input((9,)), normal, layers.Dense(16, "relu"), layers.Dense(8, "relu"), layers.Dense(1)])


def swish() -> Any:
    """Ramachandran et al., arXiv:1710.05941."""
    return keras.Sequential([keras.Input((8,)), layers.Dense(12, "swish"), layers.Dense(8, "swish"), layers.Dense(2)])


def tabular_residual() -> Any:
    """A ResNet for tables, Gorishniy et al., arXiv:2106.11959."""
    given = keras.Input((8,))
    x = layers.Dense(8)(given)
    y = layers.Dense(8)(layers.Dropout(0.1)(layers.Dense(16, "relu")(layers.BatchNormalization()(x))))
    x = layers.add([x, y])
    return keras.Model(given, layers.Dense(2)(layers.ReLU()(layers.BatchNormalization()(x))))


def parametric_relu() -> Any:
    """He et al., arXiv:1502.01852."""
    parts = (layers.Dense(12), layers.PReLU(), layers.Dense(8), layers.PReLU(), layers.Dense(1))
    return keras.Sequential([keras.Input((10,)), *parts])


def matrix_factorisation() -> Any:
    """Rendle et al., arXiv:2005.09683: the product of two embeddings, by numbers."""
    a, b = keras.Input((6,)), keras.Input((6,))
    return keras.Model([a, b], layers.Dense(1, "sigmoid")(layers.Dot(1)([layers.Dense(4)(a), layers.Dense(4)(b)])))


def multi_task() -> Any:
    """Caruana, Machine Learning 28 (1997) 41: a dictionary of outputs."""
    given = keras.Input((12,))
    x = layers.Dense(16, "relu")(given)
    return keras.Model(given, {"energy": layers.Dense(1)(x), "kind": layers.Dense(3, "softmax")(x)})


def half_precision() -> Any:
    """Micikevicius et al., arXiv:1710.03740: a network of the policy mixed_float16."""
    parts = [layers.Dense(n, "relu", dtype="mixed_float16") for n in (16, 8)]
    return keras.Sequential([keras.Input((10,)), *parts, layers.Dense(2)])
