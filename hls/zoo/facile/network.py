# SPDX-License-Identifier: Apache-2.0
"""FACILE as tf_keras models, float and QKeras, and their training. The only file of FACILE that imports TensorFlow."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.zoo.facile import events, recipe, scales
from hypersonic.hls.zoo.facile.recipe import Sample
from hypersonic.hls.zoo.facile.scales import Dense, Network

#: inside the fabric
INPUT = FixedPoint(16, 2, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)  # 16 fC
WEIGHT_BITS = 10  # of kernels, -1..1
BIAS_BITS = 24  # of biases, -4..4: a constant in the fabric, however wide
ACTIVATION_BITS = 14  # of ReLU outputs, 0..1
OUTPUT_BITS = 20  # -1..1, that is +-1024 GeV in steps of 2 MeV
_BIAS_WEIGHT = 5.0  # of the mean residual in bins of energy, against the Huber term


@dataclass(frozen=True)
class Schedule:
    """epochs over the sample in batches of `batch` rows; rate: Adam's first learning rate."""

    epochs: int
    rate: float
    batch: int = 2048


@lru_cache(maxsize=1)
def _keras() -> tuple[Any, Any]:
    """(tensorflow, tf_keras) on two threads."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # QKeras is written for Keras 2
    import tensorflow as tf
    import tf_keras

    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf, tf_keras


def _add_batch_norm(model: Any, layer: Dense, name: str) -> None:
    """x * scale + shift as a Keras layer that training leaves alone; epsilon 0 and variance 1 keep the scale exact."""
    _, keras = _keras()
    norm = keras.layers.BatchNormalization(epsilon=0.0, name=name, trainable=False)
    model.add(norm)
    norm.set_weights([layer.scale, layer.shift, np.zeros_like(layer.scale), np.ones_like(layer.scale)])


def float_model(network: Network) -> Any:
    """The network as a tf_keras Sequential; batch norms are fixed at the network's scale and shift."""
    _, keras = _keras()
    model = keras.Sequential(name="facile_float")
    model.add(keras.layers.Input((len(events.FEATURES),)))
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        if not last:
            _add_batch_norm(model, layer, f"bn{i}")
        dense = keras.layers.Dense(layer.kernel.shape[1], activation=None if last else "relu", name=f"dense{i}")
        model.add(dense)
        dense.set_weights([layer.kernel, layer.bias])
    return model


def network_of(model: Any) -> Network:
    """The arrays of a float model. Its batch norms never train, so gamma and beta are scale and shift."""
    layers = []
    for i in range(4):
        kernel, bias = (np.asarray(w, np.float64) for w in model.get_layer(f"dense{i}").get_weights())
        ones = np.ones(len(kernel))
        scale, shift = (ones, 0.0 * ones) if i == 3 else map(np.float64, model.get_layer(f"bn{i}").get_weights()[:2])
        layers.append(Dense(kernel, bias, np.asarray(scale), np.asarray(shift)))
    return tuple(layers)


def quantised_model(network: Network) -> Any:
    """The equalised network (scales.equalise) with QKeras' quantisers.

    Kernels quantized_bits(10,0), ReLU outputs quantized_relu(14,0), the output quantized_bits(20,0), all rounded to
    nearest even and saturated: ap_fixed's AP_RND_CONV and AP_SAT.
    """
    import qkeras

    _, keras = _keras()
    model = keras.Sequential(name="facile")
    model.add(keras.layers.Input((len(events.FEATURES),), name="features"))
    for i, layer in enumerate(network):
        last = i == len(network) - 1
        if not last:
            _add_batch_norm(model, layer, f"bn{i}")
        dense = qkeras.QDense(
            layer.kernel.shape[1],
            kernel_quantizer=qkeras.quantized_bits(WEIGHT_BITS, 0, alpha=1),
            bias_quantizer=qkeras.quantized_bits(BIAS_BITS, 2, alpha=1),
            name=f"dense{i}",
        )
        model.add(dense)
        dense.set_weights([layer.kernel * (layer.scale[:, None] if last else 1.0), layer.bias])
        activation = qkeras.quantized_bits(OUTPUT_BITS, 0, alpha=1) if last else qkeras.quantized_relu(ACTIVATION_BITS, 0)
        model.add(qkeras.QActivation(activation, name="energy" if last else f"relu{i}"))
    return model


def quantised_inputs(x: ArrayLike) -> NDArray[np.float32]:
    """Network inputs (n, 18) on the grid of the fabric's input type."""
    return INPUT.to_float(INPUT.from_float(x)).astype(np.float32)


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Rows as on the wire (n, 18) -> energies (n,) in GeV by a quantised model."""
    x = quantised_inputs(np.ldexp(np.asarray(rows, np.float64), np.array(scales.INPUT_EXPONENTS)))
    output = model.predict(x, batch_size=16_384, verbose=0)
    return np.asarray(np.ldexp(output[:, 0].astype(np.float64), -scales.OUTPUT_EXPONENT))


def _loss(target: Any, output: Any) -> Any:
    """Huber in units of sigma, and the squared mean residual in bins of true energy (see recipe.Sample.target)."""
    tf, _ = _keras()
    energy, sigma, weight, bins = tf.unstack(target, axis=1)
    residual = (output[:, 0] * 2.0**-scales.OUTPUT_EXPONENT - energy) / sigma
    size = tf.abs(residual)
    huber = tf.reduce_mean(weight * tf.where(size < 2.0, 0.5 * residual**2, 2.0 * size - 2.0))
    index = tf.cast(bins, tf.int32)
    total = tf.math.unsorted_segment_sum(tf.clip_by_value(residual, -3.0, 3.0), index, recipe.BIAS_BINS)
    count = tf.math.unsorted_segment_sum(tf.ones_like(residual), index, recipe.BIAS_BINS)
    # bin 0 (empty channels and the faintest) is left to the Huber term; thin bins count less
    return huber + _BIAS_WEIGHT * tf.reduce_sum((total / (count + 8.0))[1:] ** 2) / recipe.BIAS_BINS


def fit(
    model: Any,
    sample: Sample,
    schedule: Schedule,
    progress: Callable[[str], None] = lambda _: None,
    *,
    biases_only: bool = False,
) -> float:
    """Adam with a cosine schedule down to near zero. Returns the last epoch's mean loss. The same inputs, the same weights."""
    tf, keras = _keras()
    steps = max(1, len(sample.x) // schedule.batch)
    decay = keras.optimizers.schedules.CosineDecay(schedule.rate, steps * schedule.epochs, alpha=0.002)
    optimiser = keras.optimizers.Adam(decay)
    variables = [v for v in model.trainable_variables if not biases_only or "bias" in v.name]
    optimiser.build(variables)
    x, target = tf.constant(sample.x), tf.constant(sample.target)

    @tf.function  # type: ignore[untyped-decorator]
    def epoch_of(batches: Any) -> Any:
        total = tf.constant(0.0)
        for rows in batches:
            with tf.GradientTape() as tape:
                loss = _loss(tf.gather(target, rows), model(tf.gather(x, rows), training=True))
            optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            total += loss
        return total / float(steps)

    rng = np.random.default_rng(schedule.epochs)
    last = float("inf")
    for epoch in range(schedule.epochs):
        order = rng.permutation(len(sample.x))[: steps * schedule.batch].astype(np.int32)
        last = float(epoch_of(tf.constant(order.reshape(steps, -1))))
        progress(f"{model.name}: epoch {epoch + 1}/{schedule.epochs}, loss {last:.3f}")
    return last


def save(model: Any, path: Path) -> None:
    """Architecture and weights as one HDF5 file, without the optimiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that HDF5 is an old format: it is the one hls4ml and QKeras read
        model.save(path, include_optimizer=False, save_format="h5")
