# SPDX-License-Identifier: Apache-2.0
"""TensorFlow with Keras 2, which QKeras and hls4ml read, and what every network of the zoo does with it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


@lru_cache(maxsize=1)
def keras() -> tuple[Any, Any]:
    """(tensorflow, tf_keras) on two threads."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    import tf_keras

    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf, tf_keras


@dataclass(frozen=True)
class Schedule:
    """epochs over the sample in batches of `batch` rows; rate: Adam's first learning rate, a cosine down to near zero."""

    epochs: int
    rate: float
    batch: int = 1024


def fit(
    model: Any,
    x: Sequence[Array],
    target: Array,
    loss: Callable[[Any, Any], Any],
    schedule: Schedule,
    progress: Callable[[str], None] = lambda _: None,
) -> float:
    """Trains on x (one array an input) and target. loss: (target, output) of a batch -> a number.

    Returns the last epoch's mean loss. The same inputs and weights give the same result on the same machine.
    """
    tf, tf_keras = keras()
    steps = max(1, len(target) // schedule.batch)
    decay = tf_keras.optimizers.schedules.CosineDecay(schedule.rate, steps * schedule.epochs, alpha=0.01)
    optimiser = tf_keras.optimizers.Adam(decay)
    variables = model.trainable_variables
    optimiser.build(variables)
    inputs, wanted = [tf.constant(values) for values in x], tf.constant(target)

    @tf.function  # type: ignore[untyped-decorator]
    def epoch_of(batches: Any) -> Any:
        total = tf.constant(0.0)
        for rows in batches:
            batch = [tf.gather(values, rows) for values in inputs]
            with tf.GradientTape() as tape:
                value = loss(tf.gather(wanted, rows), model(batch if len(batch) > 1 else batch[0], training=True))
            optimiser.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
            total += value
        return total / float(steps)

    rng, last = np.random.default_rng(schedule.epochs), float("inf")
    for epoch in range(schedule.epochs):
        order = rng.permutation(len(target))[: steps * min(schedule.batch, len(target))].astype(np.int32)
        last = float(epoch_of(tf.constant(order.reshape(steps, -1))))
        progress(f"{model.name}: epoch {epoch + 1}/{schedule.epochs}, loss {last:.4f}")
    return last


def snap(model: Any) -> None:
    """Put the constants of QKeras' layers on their quantisers' grids, so that Keras computes what the fabric does.

    QKeras' quantisers return x + (q - x) in float32, off by a last bit where x is no multiple of the step; a sum that should be
    a tie of the next rounding then is none.
    """
    for layer in model.layers:
        quantisers: list[Any] = layer.get_quantizers() if hasattr(layer, "get_quantizers") else []
        weights = layer.get_weights()
        if weights and quantisers:
            layer.set_weights([_on_grid(w, q) for w, q in zip(weights, quantisers, strict=True)])


def _on_grid(values: Array, quantiser: Any) -> Array:
    signed = int(quantiser.keep_negative)
    width, fraction = int(quantiser.bits), int(quantiser.bits) - int(quantiser.integer) - signed
    raw = np.rint(np.ldexp(values.astype(np.float64), fraction))
    clipped = np.clip(raw, -signed << (width - 1), (1 << (width - signed)) - 1)
    return np.asarray(np.ldexp(clipped, -fraction), np.float32)


def seed_weights(seed: int) -> None:
    """Keras' initialisers draw the same weights after the same seed."""
    _, tf_keras = keras()
    tf_keras.utils.set_random_seed(seed)


def save(model: Any, path: Path) -> None:
    """Architecture and weights as one HDF5 file, without the optimiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that HDF5 is an old format: it is the one hls4ml and QKeras read
        model.save(path, include_optimizer=False, save_format="h5")
