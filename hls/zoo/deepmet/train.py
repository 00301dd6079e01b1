# SPDX-License-Identifier: Apache-2.0
"""Train DeepMET on toy events and write the weights that the zoo ships.

`python -m hypersonic.hls.zoo.deepmet.train --output DIRECTORY`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.deepmet import events, network, report
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.training import Progress


@dataclass(frozen=True)
class Settings:
    """Seed, sizes and schedule of the training. The defaults gave the shipped weights; they take a few minutes.

    Attributes:
        candidates: number of candidates per event in training, the hardest ones; most events have fewer.
    """

    seed: int = training.SEED
    events: int = 1500
    candidates: int = 1536
    schedule: Schedule = field(default_factory=lambda: Schedule(12, 3e-3, 15))


def train(settings: Settings, progress: Progress = lambda _: None) -> Any:
    """Return the trained tf_keras model for 4500 candidates."""
    tf, _ = keras_2.keras()
    sample = events.generate(settings.events, settings.seed)
    small = network.network(settings.candidates, seed=settings.seed)

    def loss(wanted: Any, got: Any) -> Any:
        away = tf.sqrt(1.0 + tf.reduce_sum(tf.square((got - wanted) * events.SCALE_GEV / 5.0), axis=1)) - 1.0
        return tf.reduce_mean(away)

    # moving averages must converge within a few hundred steps
    for layer in small.layers:
        if hasattr(layer, "momentum"):
            layer.momentum = 0.9
    small.get_layer("met").trainable = False
    keras_2.fit(
        small,
        events.network_inputs(sample, settings.candidates),
        sample.met / events.SCALE_GEV,
        loss,
        settings.schedule,
        progress,
    )
    model = network.resized(small)
    empty_places(model, small)
    return model


def empty_places(model: Any, small: Any) -> None:
    """Correct the last layer's bias in place, so that `model` and `small` agree on an event without candidates.

    The additional empty places of the larger model then have no effect.
    """
    features, categories = (np.zeros((1, events.CANDIDATES, n), np.float32) for n in (8, 3))
    categories[:, :, 0], categories[:, :, 1] = events.CHARGES.index(0), events.PDG_IDS.index(0)
    nothing = events.Events(features, categories, np.zeros((1, 2), np.float32))
    shown = [
        np.asarray(
            one.predict(events.network_inputs(nothing, one.get_layer("features").output.shape[1]), verbose=0), np.float64
        )[0]
        for one in (small, model)
    ]
    kernel, bias = model.get_layer("met").get_weights()
    model.get_layer("met").set_weights([kernel, (bias + shown[0] - shown[1]).astype(np.float32)])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = training.arguments("deepmet", "deepmet.h5", __doc__, argv)
    model = train(Settings(seed=asked.seed), asked.progress)
    keras_2.save(model, asked.output / "deepmet.h5")
    held_out = events.generate(200, events.HELD_OUT_SEED)
    answers = keras_2.predict(model, events.network_inputs(held_out), 8)
    sys.stdout.write(report.render(report.resolutions(held_out, {"Keras": answers})) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
