# SPDX-License-Identifier: Apache-2.0
"""FACILE v2 as tf_keras models, float and QKeras. Loss and training loop are FACILE's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.facile import scales
from hypersonic.hls.zoo.facile.network import BIAS_BITS, INPUT, OUTPUT_BITS
from hypersonic.hls.zoo.facile.scales import Dense, Network
from hypersonic.hls.zoo.facile_v2 import recipe
from hypersonic.hls.zoo.facile_v2.events import FEATURES


class Bits(NamedTuple):
    """Of kernels (their binary points a layer each) and of ReLU outputs, 0..1."""

    weight: int
    activation: int


#: the two sides of a DSP48E2's multiplier, for layers that share multipliers
SHARED = Bits(16, 18)
#: few, where every weight is adders of its own
UNROLLED = Bits(8, 12)


def _add_batch_norm(model: Any, layer: Dense, name: str) -> None:
    """x * scale + shift as a Keras layer that training leaves alone."""
    _, tf_keras = keras_2.keras()
    norm = tf_keras.layers.BatchNormalization(epsilon=0.0, name=name, trainable=False)
    model.add(norm)
    norm.set_weights([layer.scale, layer.shift, np.zeros_like(layer.scale), np.ones_like(layer.scale)])


def float_model(network: Network) -> Any:
    """The network as a Sequential, a fixed batch norm before each dense layer."""
    _, tf_keras = keras_2.keras()
    model = tf_keras.Sequential([tf_keras.layers.Input((len(FEATURES),))], name="facile_v2_float")
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        _add_batch_norm(model, layer, f"bn{i}")
        dense = tf_keras.layers.Dense(layer.kernel.shape[1], activation=None if last else "relu", name=f"dense{i}")
        model.add(dense)
        dense.set_weights([layer.kernel, layer.bias])
    return model


def network_of(model: Any) -> Network:
    """The arrays of a float model. Its batch norms never train, so gamma and beta are scale and shift."""
    layers = []
    for i in range(len(recipe.UNITS) + 1):
        kernel, bias = (np.asarray(w, np.float64) for w in model.get_layer(f"dense{i}").get_weights())
        scale, shift = (np.asarray(w, np.float64) for w in model.get_layer(f"bn{i}").get_weights()[:2])
        layers.append(Dense(kernel, bias, scale, shift))
    return tuple(layers)


def quantised_model(network: Network, bits: Bits = SHARED) -> Any:
    """The equalised network with QKeras' quantisers: kernels and ReLU outputs of `bits`, the output +-1 in 20."""
    _, tf_keras = keras_2.keras()
    import qkeras

    name = "facile_v2" if bits == SHARED else "facile_v2_da"
    model = tf_keras.Sequential([tf_keras.layers.Input((len(FEATURES),), name="features")], name=name)
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        if i == 0:
            _add_batch_norm(model, layer, "bn0")
        dense = qkeras.QDense(
            layer.kernel.shape[1],
            kernel_quantizer=qkeras.quantized_bits(bits.weight, recipe.integer_bits(layer.kernel), alpha=1),
            bias_quantizer=qkeras.quantized_bits(BIAS_BITS, 1 + recipe.integer_bits(layer.bias), alpha=1),
            name=f"dense{i}",
        )
        model.add(dense)
        dense.set_weights([layer.kernel, layer.bias])
        activation = qkeras.quantized_bits(OUTPUT_BITS, 0, alpha=1) if last else qkeras.quantized_relu(bits.activation, 0)
        model.add(qkeras.QActivation(activation, name="energy" if last else f"relu{i}"))
    return model


def quantised_inputs(x: ArrayLike) -> NDArray[np.float32]:
    """Network inputs (n, 47) on the grid of the fabric's input type."""
    return INPUT.to_float(INPUT.from_float(x)).astype(np.float32)


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Rows as on the wire (n, 47) -> energies (n,) in GeV by a quantised model."""
    output = model.predict(quantised_inputs(recipe.network_inputs(rows)), batch_size=16_384, verbose=0)
    return np.asarray(np.ldexp(output[:, 0].astype(np.float64), -scales.OUTPUT_EXPONENT))
