# SPDX-License-Identifier: Apache-2.0
"""The tagger in Keras, float and QKeras, and its training: 16-64-32-32-5 as in the hls4ml tutorial, softmax at the end.

Two things differ from the tutorial. Observables arrive as they are, shifted by powers of two, where the tutorial standardises
on the host: training sees them without their means, which the first biases then absorb, exactly. And the logits saturate at
+-8 while softmax reads them as a type of +-16: hls4ml subtracts each from the largest in an unsigned type of half its
input's range, and wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.jets import events, observables, shower
from hypersonic.hls.zoo.keras_2 import Schedule

UNITS = (64, 32, 32)
PARAMETERS = 4_389  # of the dense layers
WEIGHT_BITS, WEIGHT_INTEGER = 7, 1  # of kernels, -2..2, the sign beside
BIAS_BITS, BIAS_INTEGER = 19, 6  # of biases, -64..64
ACTIVATION_BITS, ACTIVATION_INTEGER = 8, 3  # of ReLU outputs, 0..8
LOGIT_BITS, LOGIT_INTEGER = 9, 3  # -8..8 in steps of 1/32
_MEAN_FRACTION = 6  # the means taken away are multiples of 2**-6: times a kernel, still on the biases' grid


def mean_of(rows: ArrayLike) -> NDArray[np.float32]:
    """What training takes away from the network's inputs (16,): the mean of these rows (n, 16), rounded."""
    mean = events.network_inputs(rows).mean(axis=0, dtype=np.float64)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mean, _MEAN_FRACTION)), -_MEAN_FRACTION), np.float32)


def absorb_mean(model: Any, mean: NDArray[np.float32]) -> None:
    """Make a network trained on x - mean one of x."""
    first = model.get_layer("dense0")
    kernel, bias = first.get_weights()
    first.set_weights([kernel, (bias - mean.astype(np.float64) @ kernel).astype(np.float32)])


def float_model() -> Any:
    """A new network."""
    _, tf_keras = keras_2.keras()
    layers = tf_keras.layers
    model = tf_keras.Sequential([layers.Input((len(observables.OBSERVABLES),), name="observables")], name="jets_float")
    for i, units in enumerate(UNITS):
        model.add(layers.Dense(units, activation="relu", kernel_initializer="he_uniform", name=f"dense{i}"))
    model.add(layers.Dense(len(shower.CLASSES), activation="softmax", name=f"dense{len(UNITS)}"))
    return model


def quantised_model(trained: Any, *, softmax: bool = True) -> Any:
    """The float (or a quantised) model's weights in QKeras' quantisers; without softmax its outputs are the logits."""
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
    """Rows as on the wire (n, 16) -> the model's outputs (n, 5)."""
    return np.asarray(model.predict(events.network_inputs(rows), batch_size=4096, verbose=0), np.float64)


def _loss(label: Any, probability: Any) -> Any:
    tf, _ = keras_2.keras()
    rows = tf.one_hot(tf.cast(label, tf.int32), len(shower.CLASSES))
    return -tf.reduce_mean(tf.reduce_sum(rows * tf.math.log(probability + 1e-7), axis=1))


def fit(
    model: Any,
    jets: events.Jets,
    mean: NDArray[np.float32],
    schedule: Schedule,
    progress: Callable[[str], None] = lambda _: None,
) -> float:
    """Cross entropy over inputs without their mean. Returns the last epoch's."""
    x = events.network_inputs(jets.rows) - mean
    return keras_2.fit(model, [x], jets.label.astype(np.float32), _loss, schedule, progress)
