# SPDX-License-Identifier: Apache-2.0
"""TensorFlow with Keras 2, which QKeras and hls4ml need, and the training loop that all networks of the zoo share."""

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
    """Return (tensorflow, tf_keras), imported on first use and limited to two threads."""
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
    """How long and how fast to train: Adam with a cosine-decayed learning rate.

    Attributes:
        epochs: passes over the sample.
        rate: initial learning rate.
        batch: rows per step.
        floor: final learning rate as a fraction of the initial one.
    """

    epochs: int
    rate: float
    batch: int = 1024
    floor: float = 0.01


def fit(
    model: Any,
    x: Sequence[Array],
    target: Array,
    loss: Callable[[Any, Any], Any],
    schedule: Schedule,
    progress: Callable[[str], None] = lambda _: None,
    variables: Sequence[Any] | None = None,
) -> float:
    """Train `model` in place and return the mean loss of the last epoch.

    The same data and initial weights give the same result on the same machine.

    Args:
        x: one float32 array per input.
        target: float32; all have the same number of rows.
        loss: (target, output) of a batch -> a scalar tensor.
        variables: those to train, by default all trainable ones of the model.
    """
    tf, tf_keras = keras()
    steps = max(1, len(target) // schedule.batch)
    decay = tf_keras.optimizers.schedules.CosineDecay(schedule.rate, steps * schedule.epochs, alpha=schedule.floor)
    optimiser = tf_keras.optimizers.Adam(decay)
    trained = model.trainable_variables if variables is None else variables
    optimiser.build(trained)
    inputs, wanted = [tf.constant(values) for values in x], tf.constant(target)

    @tf.function  # type: ignore[untyped-decorator]
    def epoch_of(batches: Any) -> Any:
        total = tf.constant(0.0)
        for rows in batches:
            batch = [tf.gather(values, rows) for values in inputs]
            with tf.GradientTape() as tape:
                value = loss(tf.gather(wanted, rows), model(batch if len(batch) > 1 else batch[0], training=True))
            optimiser.apply_gradients(zip(tape.gradient(value, trained), trained, strict=True))
            total += value
        return total / float(steps)

    rng, last = np.random.default_rng(schedule.epochs), float("inf")
    for epoch in range(schedule.epochs):
        order = rng.permutation(len(target))[: steps * min(schedule.batch, len(target))].astype(np.int32)
        last = float(epoch_of(tf.constant(order.reshape(steps, -1))))
        progress(f"{model.name}: epoch {epoch + 1}/{schedule.epochs}, loss {last:.4f}")
    return last


def cross_entropy(label: Any, probability: Any) -> Any:
    """Return the mean cross entropy of a batch.

    Args:
        label: (n,), indices of classes.
        probability: (n, classes).
    """
    tf, _ = keras()
    wanted = tf.one_hot(tf.cast(label, tf.int32), probability.shape[1])
    return -tf.reduce_mean(tf.reduce_sum(wanted * tf.math.log(probability + 1e-7), axis=1))


def binary_cross_entropy(wanted: Any, found: Any, *, logits: bool = False) -> Any:
    """Return the mean cross entropy of a batch of probabilities, or of logits.

    Args:
        wanted, found: (n, 1).
    """
    return keras()[1].losses.BinaryCrossentropy(from_logits=logits)(wanted, found)


def predict(model: Any, x: Array | Sequence[Array], batch: int = 4096) -> NDArray[np.float64]:
    """Return the output of a model with one output.

    Args:
        x: an array, or one per input.
        batch: rows per step.
    """
    return np.asarray(model.predict(x, batch_size=batch, verbose=0), np.float64)


def snap(model: Any) -> None:
    """Round the weights of QKeras layers to their quantisers' grids, so that Keras computes what the fabric computes.

    QKeras' quantisers return x + (q - x) in float32. That differs from q in the last bit when x is not a multiple of the step,
    and then a sum that should be a tie in the next rounding is not a tie.
    """
    for layer in model.layers:
        quantisers: list[Any] = layer.get_quantizers() if hasattr(layer, "get_quantizers") else []
        weights = layer.get_weights()
        if weights and quantisers:
            layer.set_weights([_on_grid(w, q) for w, q in zip(weights, quantisers, strict=True)])


def _on_grid(values: Array, quantiser: Any) -> Array:
    """Return the nearest values that the quantiser can represent, ties to even."""
    signed = int(quantiser.keep_negative)
    width, fraction = int(quantiser.bits), int(quantiser.bits) - int(quantiser.integer) - signed
    raw = np.rint(np.ldexp(values.astype(np.float64), fraction))
    clipped = np.clip(raw, -signed << (width - 1), (1 << (width - signed)) - 1)
    return np.asarray(np.ldexp(clipped, -fraction), np.float32)


def seed_weights(seed: int) -> None:
    """Seed Keras' initialisers: the same seed gives the same initial weights."""
    _, tf_keras = keras()
    tf_keras.utils.set_random_seed(seed)


def save(model: Any, path: Path) -> None:
    """Write architecture and weights to one HDF5 file, without the optimiser's state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Keras warns that HDF5 is an old format, but hls4ml and QKeras read it
        model.save(path, include_optimizer=False, save_format="h5")
