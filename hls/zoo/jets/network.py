# SPDX-License-Identifier: Apache-2.0
"""The tagger in Keras, float and QKeras: 16-64-32-32-5 as in the hls4ml tutorial, softmax at the end.

Two things differ from the tutorial. First, the tutorial standardises the observables on the host. Here they are only shifted by
powers of two; training subtracts their means, and afterwards the first layer's biases absorb the means exactly. Second, the
logits saturate at +-8, while softmax reads them in a type with a range of +-16. hls4ml subtracts each logit from the largest
one in an unsigned type with half the range of its input, which would wrap without the wider type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.jets import events, observables, shower

UNITS = (64, 32, 32)
PARAMETERS = 4_389  # of the dense layers
WEIGHT_BITS, WEIGHT_INTEGER = 7, 1  # of kernels, -2 to 2; the sign is not counted as an integer bit
BIAS_BITS, BIAS_INTEGER = 19, 6  # of biases, -64 to 64
ACTIVATION_BITS, ACTIVATION_INTEGER = 8, 3  # of ReLU outputs, 0 to 8
LOGIT_BITS, LOGIT_INTEGER = 9, 3  # -8 to 8 in steps of 1/32
_MEAN_FRACTION = 6  # means are rounded to multiples of 2**-6, so that their products with a kernel are on the biases' grid


def mean_of(rows: ArrayLike) -> NDArray[np.float32]:
    """Return the rounded mean (16,) of the network inputs of these rows (n, 16), which training subtracts."""
    mean = events.network_inputs(rows).mean(axis=0, dtype=np.float64)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mean, _MEAN_FRACTION)), -_MEAN_FRACTION), np.float32)


def absorb_mean(model: Any, mean: NDArray[np.float32]) -> None:
    """Change the first bias in place, so that a network trained on x - mean takes x instead."""
    first = model.get_layer("dense0")
    kernel, bias = first.get_weights()
    first.set_weights([kernel, (bias - mean.astype(np.float64) @ kernel).astype(np.float32)])


def float_model() -> Any:
    """Build the float network: (n, 16) -> probabilities (n, 5)."""
    _, tf_keras = keras_2.keras()
    layers = tf_keras.layers
    model = tf_keras.Sequential([layers.Input((len(observables.OBSERVABLES),), name="observables")], name="jets_float")
    for i, units in enumerate(UNITS):
        model.add(layers.Dense(units, activation="relu", kernel_initializer="he_uniform", name=f"dense{i}"))
    model.add(layers.Dense(len(shower.CLASSES), activation="softmax", name=f"dense{len(UNITS)}"))
    return model


def quantised_model(trained: Any, *, softmax: bool = True) -> Any:
    """Build the QKeras model with the weights of `trained`, a float or a quantised model.

    Args:
        softmax: False for a model whose outputs are the logits.
    """
    _, tf_keras = keras_2.keras()
    import qkeras

    layers = tf_keras.layers
    name = "jets" if softmax else "jets_logits"
    model = tf_keras.Sequential([layers.Input((len(observables.OBSERVABLES),), name="observables")], name=name)
    for i, units in enumerate((*UNITS, len(shower.CLASSES))):
        last = i == len(UNITS)
        dense = qkeras.QDense(
            units,
            kernel_quantizer=qkeras.quantized_bits(WEIGHT_BITS, WEIGHT_INTEGER, alpha=1),
            bias_quantizer=qkeras.quantized_bits(BIAS_BITS, BIAS_INTEGER, alpha=1),
            name=f"dense{i}",
        )
        model.add(dense)
        dense.set_weights(trained.get_layer(f"dense{i}").get_weights())
        logits = qkeras.quantized_bits(LOGIT_BITS, LOGIT_INTEGER, alpha=1)
        relu = qkeras.quantized_relu(ACTIVATION_BITS, ACTIVATION_INTEGER)
        model.add(qkeras.QActivation(logits if last else relu, name="logits" if last else f"relu{i}"))
    if softmax:
        model.add(layers.Activation("linear", name="widened"))  # jets.yaml gives it the wider type
        model.add(layers.Activation("softmax", name="probability"))
    return model


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the model's outputs (n, 5) for rows (n, 16) in wire units."""
    return keras_2.predict(model, events.network_inputs(rows))
