# SPDX-License-Identifier: Apache-2.0
"""Train DeepClean on toy segments and write the weights that the zoo ships.

`python -m hypersonic.hls.zoo.deepclean.train --output DIRECTORY`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.deepclean import events, network, report
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.training import Progress


@dataclass(frozen=True)
class Settings:
    """Seed, sizes and schedule of the training. The defaults gave the shipped weights; they take a few minutes.

    Attributes:
        samples: length of the pieces that segments are cut into for training.
    """

    seed: int = training.SEED
    segments: int = 60
    samples: int = 1024
    schedule: Schedule = field(default_factory=lambda: Schedule(25, 4e-3, 8))


def train(settings: Settings, progress: Progress = lambda _: None) -> Any:
    """Return the trained tf_keras model for segments of 8192 samples."""
    tf, _ = keras_2.keras()
    generated = events.generate(settings.segments, settings.seed)
    small = network.network(samples=settings.samples, seed=settings.seed)

    def loss(wanted: Any, found: Any) -> Any:
        return tf.reduce_mean(tf.square(wanted - found)) * 4.0**-events.EXPONENT

    def pieces(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.ldexp(values.reshape(-1, settings.samples, values.shape[2]), events.EXPONENT)

    keras_2.fit(small, [pieces(generated.witness)], pieces(generated.noise), loss, settings.schedule, progress)
    model = network.network()
    model.set_weights(small.get_weights())
    return model


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = training.arguments("deepclean", "deepclean.h5", __doc__, argv)
    model = train(Settings(seed=asked.seed), asked.progress)
    keras_2.save(model, asked.output / "deepclean.h5")
    held_out = events.generate(8, events.HELD_OUT_SEED)
    predicted = keras_2.predict(model, np.ldexp(held_out.witness, events.EXPONENT), 4)
    sys.stdout.write(report.render(report.cleaned(held_out, {"Keras": np.ldexp(predicted, -events.EXPONENT)})) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
