# SPDX-License-Identifier: Apache-2.0
"""Train the interaction network in floating point and write the weights that the zoo ships.

showers.yaml has the fixed-point types. `python -m hypersonic.hls.zoo.showers.train --output DIRECTORY` takes a few minutes.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.keras_2 import Array, Schedule
from hypersonic.hls.zoo.showers import events, network
from hypersonic.hls.zoo.showers.task import TASK


def _sample(count: int, seed: int) -> tuple[list[Array], Array]:
    showers = events.showers(count, seed)
    return [events.network_inputs(showers.rows)], showers.electron.astype(np.float32)[:, None]


RECIPE = training.Recipe(
    "showers",
    network.network,
    _sample,
    partial(keras_2.binary_cross_entropy, logits=True),
    count=60_000,
    schedule=Schedule(25, 5e-3, 512),
    quality=training.merit(TASK, network.predict, 10_000),
)

if __name__ == "__main__":
    sys.exit(training.main(RECIPE, __doc__))
