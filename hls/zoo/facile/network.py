# SPDX-License-Identifier: Apache-2.0
"""FACILE as tf_keras models, float and QKeras, and their loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.facile import recipe, scales
from hypersonic.hls.zoo.facile.recipe import Sample
from hypersonic.hls.zoo.facile.scales import Dense, Network
from hypersonic.hls.zoo.keras_2 import Schedule

#: type of the inputs in the fabric
INPUT = FixedPoint(16, 2, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)  # charges in steps of 16 fC
WEIGHT_BITS = 10  # of kernels, -1 to 1
BIAS_BITS = 24  # of biases, -4 to 4; constants in the fabric, so their width costs little
ACTIVATION_BITS = 14  # of ReLU outputs, 0 to 1
OUTPUT_BITS = 20  # -1 to 1, which is +-1024 GeV in steps of 2 MeV
#: QKeras' width and integer bits without the sign
Bits = tuple[int, int]
_BIAS_WEIGHT = 5.0  # weight of the mean residual in bins of energy, relative to the Huber term


def add_batch_norm(model: Any, layer: Dense, name: str) -> None:
    """Append x * scale + shift of `layer` to the model as a batch norm that is not trained.

    epsilon 0 and variance 1 keep the scale exact.
    """
    _, tf_keras = keras_2.keras()
    norm = tf_keras.layers.BatchNormalization(epsilon=0.0, name=name, trainable=False)
    model.add(norm)
    norm.set_weights([layer.scale, layer.shift, np.zeros_like(layer.scale), np.ones_like(layer.scale)])


def float_model(network: Network, name: str = "facile_float") -> Any:
    """Build the network as a tf_keras Sequential, (n, features) -> (n, 1).

    Batch norms are fixed at the network's scale and shift; the last layer has none.
    """
    _, tf_keras = keras_2.keras()
    model = tf_keras.Sequential(name=name)
    model.add(tf_keras.layers.Input((len(network[0].kernel),)))
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        if not last:
            add_batch_norm(model, layer, f"bn{i}")
        dense = tf_keras.layers.Dense(layer.kernel.shape[1], activation=None if last else "relu", name=f"dense{i}")
        model.add(dense)
        dense.set_weights([layer.kernel, layer.bias])
    return model


def network_of(model: Any) -> Network:
    """Return the arrays of a float model with layers dense0, dense1, ..., each optionally preceded by bn0, bn1, ...

    The batch norms are not trained, so that their gamma and beta are scale and shift; a layer without one has scale 1, shift 0.
    """
    by_name = {layer.name: layer for layer in model.layers}
    layers = []
    for i in range(sum(name.startswith("dense") for name in by_name)):
        kernel, bias = (np.asarray(w, np.float64) for w in by_name[f"dense{i}"].get_weights())
        scale, shift = np.ones(len(kernel)), np.zeros(len(kernel))
        if f"bn{i}" in by_name:
            scale, shift = (np.asarray(w, np.float64) for w in by_name[f"bn{i}"].get_weights()[:2])
        layers.append(Dense(kernel, bias, scale, shift))
    return tuple(layers)


def quantised_model(
    network: Network,
    name: str = "facile",
    norms: int = 3,
    types: Callable[[Dense], tuple[Bits, Bits]] = lambda _: ((WEIGHT_BITS, 0), (BIAS_BITS, 2)),
    activation_bits: int = ACTIVATION_BITS,
) -> Any:
    """Build an equalised network (scales.equalise) with QKeras' quantisers.

    ReLU outputs are quantized_relu(activation_bits, 0), the output is quantized_bits(20,0). All round to nearest, ties to even,
    and saturate, as ap_fixed's AP_RND_CONV and AP_SAT do.

    Args:
        norms: batch norms, from the first layer on.
        types: of a layer's kernel and bias, (bits, integer bits without the sign).
    """
    import qkeras

    _, tf_keras = keras_2.keras()
    model = tf_keras.Sequential(name=name)
    model.add(tf_keras.layers.Input((len(network[0].kernel),), name="features"))
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        if i < norms:
            add_batch_norm(model, layer, f"bn{i}")
        kernel_quantizer, bias_quantizer = (qkeras.quantized_bits(*bits, alpha=1) for bits in types(layer))
        dense = qkeras.QDense(
            layer.kernel.shape[1], kernel_quantizer=kernel_quantizer, bias_quantizer=bias_quantizer, name=f"dense{i}"
        )
        model.add(dense)
        dense.set_weights([layer.kernel * (layer.scale[:, None] if last else 1.0), layer.bias])
        activation = qkeras.quantized_bits(OUTPUT_BITS, 0, alpha=1) if last else qkeras.quantized_relu(activation_bits, 0)
        model.add(qkeras.QActivation(activation, name="energy" if last else f"relu{i}"))
    return model


def quantised_inputs(x: ArrayLike) -> NDArray[np.float32]:
    """Round network inputs (any shape) to the fabric's input type, INPUT."""
    return INPUT.to_float(INPUT.from_float(x)).astype(np.float32)


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the energies (n,) in GeV that a quantised model gives for rows (n, 18) in wire units."""
    return energies(model, np.ldexp(np.asarray(rows, np.float64), np.array(scales.INPUT_EXPONENTS)))


def energies(model: Any, x: ArrayLike) -> NDArray[np.float64]:
    """Return the energies (n,) in GeV that a quantised model gives for network inputs x (n, features)."""
    return np.asarray(np.ldexp(keras_2.predict(model, quantised_inputs(x), 16_384)[:, 0], -scales.OUTPUT_EXPONENT))


def _loss(target: Any, output: Any) -> Any:
    """Huber loss in units of sigma plus the squared mean residual in bins of true energy.

    Args:
        target: recipe.Sample.target.
    """
    tf, _ = keras_2.keras()
    energy, sigma, weight, bins = tf.unstack(target, axis=1)
    residual = (output[:, 0] * 2.0**-scales.OUTPUT_EXPONENT - energy) / sigma
    size = tf.abs(residual)
    huber = tf.reduce_mean(weight * tf.where(size < 2.0, 0.5 * residual**2, 2.0 * size - 2.0))
    index = tf.cast(bins, tf.int32)
    total = tf.math.unsorted_segment_sum(tf.clip_by_value(residual, -3.0, 3.0), index, recipe.BIAS_BINS)
    count = tf.math.unsorted_segment_sum(tf.ones_like(residual), index, recipe.BIAS_BINS)
    # bin 0 (empty and very faint channels) is left to the Huber term; bins with few entries count less
    return huber + _BIAS_WEIGHT * tf.reduce_sum((total / (count + 8.0))[1:] ** 2) / recipe.BIAS_BINS


def fit(
    model: Any,
    sample: Sample,
    schedule: Schedule,
    progress: Callable[[str], None] = lambda _: None,
    *,
    biases_only: bool = False,
) -> float:
    """Train a float or quantised model in place on the sample and return the mean loss of the last epoch.

    See keras_2.fit.

    Args:
        biases_only: leave the kernels as they are.
    """
    variables = [v for v in model.trainable_variables if "bias" in v.name] if biases_only else None
    return keras_2.fit(model, [sample.x], sample.target, _loss, schedule, progress, variables)
