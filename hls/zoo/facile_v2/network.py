# SPDX-License-Identifier: Apache-2.0
"""FACILE v2 as tf_keras models, float and QKeras. The loss is FACILE's (hls/zoo/facile/network.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.facile import scales
from hypersonic.hls.zoo.facile.network import BIAS_BITS, OUTPUT_BITS, add_batch_norm, quantised_inputs
from hypersonic.hls.zoo.facile.scales import Network
from hypersonic.hls.zoo.facile_v2 import recipe
from hypersonic.hls.zoo.facile_v2.events import FEATURES


class Bits(NamedTuple):
    """Widths of the kernels (each layer has its own binary point) and of the ReLU outputs, which are 0 to 1."""

    weight: int
    activation: int


#: for layers that share multipliers: fits the two inputs of a DSP48E2's multiplier
SHARED = Bits(16, 18)
#: for the unrolled core, in which every weight becomes adders of its own
UNROLLED = Bits(8, 12)


def float_model(network: Network) -> Any:
    """Build the network as a tf_keras Sequential, (n, 47) -> (n, 1), with a fixed batch norm before each dense layer."""
    _, tf_keras = keras_2.keras()
    model = tf_keras.Sequential([tf_keras.layers.Input((len(FEATURES),))], name="facile_v2_float")
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        add_batch_norm(model, layer, f"bn{i}")
        dense = tf_keras.layers.Dense(layer.kernel.shape[1], activation=None if last else "relu", name=f"dense{i}")
        model.add(dense)
        dense.set_weights([layer.kernel, layer.bias])
    return model


def quantised_model(network: Network, bits: Bits = SHARED) -> Any:
    """Build the equalised network with QKeras' quantisers: `bits` for kernels and ReLU outputs, 20 for the output (+-1)."""
    _, tf_keras = keras_2.keras()
    import qkeras

    name = "facile_v2" if bits == SHARED else "facile_v2_da"
    model = tf_keras.Sequential([tf_keras.layers.Input((len(FEATURES),), name="features")], name=name)
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        if i == 0:
            add_batch_norm(model, layer, "bn0")
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


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the energies (n,) in GeV that a quantised model gives for rows (n, 47) in wire units."""
    output = model.predict(quantised_inputs(recipe.network_inputs(rows)), batch_size=16_384, verbose=0)
    return np.asarray(np.ldexp(output[:, 0].astype(np.float64), -scales.OUTPUT_EXPONENT))
