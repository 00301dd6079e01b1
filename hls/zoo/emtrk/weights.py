# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId's weights: 11.9 million are too many to ship, so they are trained on toy patches, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2, seeded
from hypersonic.hls.zoo.emtrk import events, network
from hypersonic.hls.zoo.keras_2 import Schedule

#: ap_fixed<width, integer> of the kernels; with six bits dense0's kernel fits the U250's block RAM
GRIDS = {"conv": (8, 1), "dense0": (6, -3), "dense1": (12, 2), "kind": (12, 2), "michel": (12, 2)}
_BIAS = (16, 4)
_TRAINED = 4000  # patches in the training
_SCHEDULE = Schedule(4, 1e-3, 50)
_SMOOTH = 0.02  # label smoothing: keeps logits below 8, where hls4ml's tables are fine enough


def save(file: Path) -> None:
    """Train the network and write it to `file` (.h5)."""
    keras_2.save(trained(network.network()), file)


def trained(model: Any, *, seed: int = 1, count: int = _TRAINED, schedule: Schedule = _SCHEDULE) -> Any:
    """Train the network in place on `count` patches, round the weights to their types, and return it."""
    sample = events.generate(count, seed)
    keras_2.fit(model, [sample.image], _target(sample), _loss, schedule)
    for name, grid in GRIDS.items():
        kernel, bias = model.get_layer(name).get_weights()
        model.get_layer(name).set_weights([seeded.on_grid(kernel, grid), seeded.on_grid(bias, _BIAS)])
    return model


def _target(sample: events.Patches) -> NDArray[np.float32]:
    kind = np.eye(len(events.KINDS))[sample.kind] * (1.0 - _SMOOTH) + _SMOOTH / len(events.KINDS)
    return np.column_stack([kind, sample.michel * (1.0 - _SMOOTH) + _SMOOTH / 2.0]).astype(np.float32)


def _loss(wanted: Any, found: Any) -> Any:
    """Sum of the cross entropies of both outputs.

    Args:
        wanted: (n, 4).
        found: probabilities (n, 3) and (n, 1).
    """
    tf, _ = keras_2.keras()
    kind, michel = (tf.clip_by_value(part, 1e-6, 1.0 - 1e-6) for part in found)
    of_kind = -tf.reduce_sum(wanted[:, :3] * tf.math.log(kind), axis=1)
    truth = wanted[:, 3:]
    of_michel = -(truth * tf.math.log(michel) + (1.0 - truth) * tf.math.log(1.0 - michel))
    return tf.reduce_mean(of_kind) + tf.reduce_mean(of_michel)
