# SPDX-License-Identifier: Apache-2.0
"""Train the model and write the weights that the zoo ships, in a few seconds.

`hypersonic train my_model --output DIRECTORY`.
"""

from __future__ import annotations

import sys

from hypersonic.hls.zoo import training
from hypersonic.hls.zoo.keras_2 import Array, Schedule
from hypersonic.hls.zoo.template.my_model import events, network
from hypersonic.hls.zoo.template.my_model.task import TASK


def _sample(count: int, seed: int) -> tuple[list[Array], Array]:
    pulses = events.generate(count, seed)
    return [pulses.samples], pulses.height


RECIPE = training.Recipe(
    "my_model",
    network.network,
    _sample,
    network.loss,
    count=8_000,
    schedule=Schedule(30, 1e-2, 200),
    quality=training.merit(TASK, network.predict, 2000),
)

if __name__ == "__main__":
    sys.exit(training.main(RECIPE, __doc__))
