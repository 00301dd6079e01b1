# SPDX-License-Identifier: Apache-2.0
"""HGQ2 with Keras 3 and TensorFlow, and the training loop of the zoo's models that learn their bit widths."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.bounded import tool
from hypersonic.hls.child import python_argv
from hypersonic.hls.frontend.hgq import environment

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Schedule:
    """How to train: Adam with a cosine-decayed learning rate.

    Attributes:
        epochs: passes over the sample.
        rate: initial learning rate.
        batch: rows per step.
        beta: the weight of the cost in the loss, per effective bit operation (EBOP); it grows exponentially from the first
            value to the second.
        trial: epochs without cost.
    """

    epochs: int
    rate: float
    batch: int
    beta: tuple[float, float]
    trial: int = 3


def run_in_environment(module: str, argv: Sequence[str]) -> int | None:
    """Run `python -m module argv` where HGQ2 is installed and return its exit code. None if this process has HGQ2 already."""
    if find_spec("hgq") is not None:
        return None
    options = {"env": environment(print), "stdin": subprocess.DEVNULL}
    with tool.start(python_argv("-m", module, *argv), f"the training {module}", **options) as training:
        return training.process.wait()


@lru_cache(maxsize=1)
def keras() -> Any:
    """Return Keras 3 on TensorFlow, imported on first use and limited to two threads."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return keras


@contextmanager
def widths() -> Iterator[None]:
    """Inside the context, layers learn a bit width for each weight and each activation: weights saturate, activations wrap."""
    from hgq.config import LayerConfigScope, QuantizerConfigScope

    with (
        QuantizerConfigScope(place="all", default_q_type="kbi", overflow_mode="SAT_SYM"),
        QuantizerConfigScope(place="datalane", default_q_type="kif", overflow_mode="WRAP"),
        LayerConfigScope(enable_ebops=True, beta0=0.0),
    ):
        yield


def fit(model: Any, x: Array, label: NDArray[np.int64], schedule: Schedule, progress: Callable[[str], None]) -> float:
    """Train a classifier of logits in place by cross entropy and cost; return its cost in EBOPs.

    Afterwards the ranges of all activations are set to those that occur on x.

    Args:
        x: (n, ...).
        label: (n,).
    """
    from hgq.utils import trace_minmax
    from hgq.utils.sugar import BetaScheduler

    first, last = np.log(schedule.beta)
    learning = max(schedule.epochs - schedule.trial, 1)

    def beta(epoch: int) -> float:
        past = epoch - schedule.trial
        return 0.0 if past < 0 else float(np.exp(first + (last - first) * past / learning))

    steps = len(x) // schedule.batch
    decay = keras().optimizers.schedules.CosineDecay(schedule.rate, steps * schedule.epochs, alpha=0.02)
    loss = keras().losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras().optimizers.Adam(decay), loss=loss, metrics=["accuracy"])
    say = keras().callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: progress(
            f"{model.name}: epoch {epoch + 1}/{schedule.epochs}, loss {logs['loss']:.4f}, accuracy {logs['accuracy']:.4f}"
        )
    )
    model.fit(x, label, batch_size=schedule.batch, epochs=schedule.epochs, verbose=0, callbacks=[BetaScheduler(beta), say])
    return float(trace_minmax(model, x, batch_size=schedule.batch, verbose=0))


def predict(model: Any, x: Array) -> NDArray[np.float64]:
    """Return the model's outputs (n, outputs) for inputs x (n, ...)."""
    return np.asarray(model.predict(x, batch_size=4096, verbose=0), np.float64)


def save(model: Any, path: Path) -> None:
    """Write a .keras file of a model without its optimiser and loss."""
    model.compile()
    model.save(path)
