# SPDX-License-Identifier: Apache-2.0
"""Train the autoencoder on ordinary events and write the weights that the zoo ships; anomaly.yaml has the fixed-point types.

`python -m hypersonic.hls.zoo.anomaly.train --output DIRECTORY` takes about a minute.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.anomaly import events, network, task
from hypersonic.hls.zoo.keras_2 import Array, Schedule


def _sample(count: int, seed: int) -> tuple[list[Array], Array]:
    """Return ordinary events; the wanted score of each is 0."""
    return [events.network_inputs(events.ordinary(count, seed).rows)], np.zeros(count, np.float32)


def _score(_: Any, score: Any) -> Any:
    return keras_2.keras()[0].reduce_mean(score)


def _quality(model: Any) -> str:
    held_out = events.mixture(10_000, events.HELD_OUT_SEED)
    areas = task.areas((network.predict(model, held_out.rows),), held_out.kind)
    return "\n".join(f"{name}: AUC {area:.4f}" for name, area in zip(events.SIGNALS, areas, strict=True))


RECIPE = training.Recipe(
    "anomaly", network.network, _sample, _score, count=60_000, schedule=Schedule(40, 3e-3, 512), quality=_quality
)

if __name__ == "__main__":
    sys.exit(training.main(RECIPE, __doc__))
