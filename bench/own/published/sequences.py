# SPDX-License-Identifier: Apache-2.0
"""Sequences and sets: recurrent networks, attention, sums over particles. A docstring says where an architecture is from."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops


def temporal_convolutions() -> Any:
    """Bai et al., arXiv:1803.01271: causal, dilated, residual."""
    x = given = keras.Input((20, 3))
    for apart in (1, 2, 4):
        y = layers.Conv1D(5, 3, padding="causal", dilation_rate=apart, activation="relu")(x)
        x = layers.Activation("relu")(layers.add([layers.Conv1D(5, 1)(x), y]))
    return keras.Model(given, layers.Dense(2)(layers.Flatten()(x)))


def wavenet() -> Any:
    """A gated layer of van den Oord et al., arXiv:1609.03499."""
    given = keras.Input((16, 2))
    gates = [layers.Conv1D(4, 2, padding="causal", activation=kind)(given) for kind in ("tanh", "sigmoid")]
    x = layers.add([layers.Conv1D(4, 1)(layers.multiply(gates)), layers.Conv1D(4, 1)(given)])
    return keras.Model(given, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


def lstm_forecast() -> Any:
    """Hochreiter and Schmidhuber, Neural Computation 9 (1997) 1735."""
    return keras.Sequential([keras.Input((12, 2)), layers.LSTM(8), layers.Dense(1)])


def gru_tagger() -> Any:
    """A recurrent flavour tagger, Khoda et al., arXiv:2207.00559."""
    parts = (layers.GRU(8), layers.Dense(10, "relu"), layers.Dense(3, "softmax"))
    return keras.Sequential([keras.Input((10, 4)), *parts])


def bidirectional() -> Any:
    """Schuster and Paliwal, IEEE Trans. Signal Processing 45 (1997) 2673."""
    parts = (layers.Bidirectional(layers.LSTM(5, return_sequences=True)), layers.Bidirectional(layers.LSTM(4)), layers.Dense(1))
    return keras.Sequential([keras.Input((8, 3)), *parts])


def particle_transformer() -> Any:
    """A block of Vaswani et al., arXiv:1706.03762, over particles."""
    given = keras.Input((8, 4))
    x = layers.Dense(8)(given)
    x = layers.LayerNormalization()(layers.add([x, layers.MultiHeadAttention(2, 4)(x, x)]))
    y = layers.Dense(8)(layers.Dense(16, "relu")(x))
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(layers.add([x, y])))
    return keras.Model(given, layers.Dense(5, "softmax")(x))


def mixer() -> Any:
    """A block of Tolstikhin et al., arXiv:2105.01601."""
    given = keras.Input((6, 5))
    y = layers.Permute((2, 1))(layers.LayerNormalization()(given))
    x = layers.add([given, layers.Permute((2, 1))(layers.Dense(6)(layers.Dense(8, "gelu")(y)))])
    y = layers.Dense(5)(layers.Dense(8, "gelu")(layers.LayerNormalization()(x)))
    return keras.Model(given, layers.Dense(3)(layers.GlobalAveragePooling1D()(layers.add([x, y]))))


def deep_sets() -> Any:
    """Zaheer et al., arXiv:1703.06114; energy flow networks, Komiske et al., arXiv:1810.05165."""
    given = keras.Input((10, 4))
    x = layers.TimeDistributed(layers.Dense(8, "relu"))(given)
    x = layers.TimeDistributed(layers.Dense(8, "relu"))(x)
    return keras.Model(given, layers.Dense(2, "softmax")(layers.Dense(8, "relu")(ops.sum(x, axis=1))))


def equivariant_sets() -> Any:
    """An equivariant layer of Zaheer et al., arXiv:1703.06114: x minus its mean over the set."""
    given = keras.Input((6, 4))
    x = layers.Dense(8, "elu")(given - ops.mean(given, axis=1, keepdims=True))
    return keras.Model(given, layers.Dense(2)(layers.GlobalMaxPooling1D()(x)))


def interaction_network() -> Any:
    """Battaglia et al., arXiv:1612.00222; JEDI-net, Moreno et al., arXiv:1908.05318: adjacency matrices as constants."""
    given = keras.Input((4, 3))
    turned = layers.Permute((2, 1))(given)
    receive = layers.Permute((2, 1))(layers.Dense(12, use_bias=False)(turned))
    send = layers.Permute((2, 1))(layers.Dense(12, use_bias=False)(turned))
    edges = layers.Dense(5, "relu")(layers.concatenate([receive, send]))
    back = layers.Permute((2, 1))(layers.Dense(4, use_bias=False)(layers.Permute((2, 1))(edges)))
    nodes = layers.Dense(6, "relu")(layers.concatenate([given, back]))
    return keras.Model(given, layers.Dense(3)(layers.GlobalAveragePooling1D()(nodes)))


def attention_pooling() -> Any:
    """Luong et al., arXiv:1508.04025: a sequence attends to itself."""
    given = keras.Input((8, 4))
    x = layers.GRU(6, return_sequences=True)(given)
    return keras.Model(given, layers.Dense(2)(layers.GlobalAveragePooling1D()(layers.Attention()([x, x]))))


def deep_met() -> Any:
    """Feng et al., CMS-DP-2021-015: weights of particles, multiplied with their momenta and summed."""
    momenta, features = keras.Input((8, 2)), keras.Input((8, 5))
    x = layers.Dense(8, "tanh")(layers.BatchNormalization()(features))
    weight = layers.Dense(1)(layers.Dense(6, "tanh")(x))
    return keras.Model([momenta, features], ops.sum(layers.multiply([momenta, weight]), axis=1))


def electrocardiogram() -> Any:
    """Kiranyaz et al., IEEE Trans. Biomedical Eng. 63 (2016) 664."""
    model = keras.Sequential([keras.Input((40, 1))])
    for n in (4, 6):
        model.add(layers.Conv1D(n, 5, activation="relu"))
        model.add(layers.MaxPooling1D(2))
    for layer in (layers.Flatten(), layers.Dense(8, "relu"), layers.Dense(3, "softmax")):
        model.add(layer)
    return model
