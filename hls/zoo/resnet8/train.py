# SPDX-License-Identifier: Apache-2.0
"""Train ResNet-8 in floating point and write the weights that the zoo ships; resnet8.yaml has the fixed-point types.

`python -m hypersonic.hls.zoo.resnet8.train --output DIRECTORY` takes about three minutes.
"""

from __future__ import annotations

import sys

import numpy as np

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.keras_2 import Array, Schedule
from hypersonic.hls.zoo.resnet8 import events, network
from hypersonic.hls.zoo.resnet8.task import TASK


def _sample(count: int, seed: int) -> tuple[list[Array], Array]:
    images = events.generate(count, seed)
    return [events.network_inputs(images.pixel)], images.kind.astype(np.float32)


RECIPE = training.Recipe(
    "resnet8",
    network.network,
    _sample,
    keras_2.cross_entropy,
    count=8000,
    schedule=Schedule(12, 3e-3, 64),
    quality=training.merit(TASK, network.predict, 2000),
)

if __name__ == "__main__":
    sys.exit(training.main(RECIPE, __doc__))
