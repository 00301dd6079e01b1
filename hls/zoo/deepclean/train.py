# SPDX-License-Identifier: Apache-2.0
"""Train DeepClean on toy segments and write the weights that the zoo ships.

`python -m hypersonic.hls.zoo.deepclean.train --output DIRECTORY`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepclean import events, network, report
from hypersonic.hls.zoo.keras_2 import Schedule

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Seed, sizes and schedule of the training. The defaults gave the shipped weights; they take a few minutes.

    samples: length of the pieces that segments are cut into for training.
    """

    seed: int = 1
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
    parser = argparse.ArgumentParser(prog="python -m hypersonic.hls.zoo.deepclean.train", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory for deepclean.h5")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_args(argv)
    model = train(Settings(seed=arguments.seed), (lambda _: None) if arguments.quiet else _say)
    arguments.output.mkdir(parents=True, exist_ok=True)
    keras_2.save(model, arguments.output / "deepclean.h5")
    held_out = events.generate(8, events.HELD_OUT_SEED)
    predicted = model.predict(np.ldexp(held_out.witness, events.EXPONENT), batch_size=4, verbose=0)
    sys.stdout.write(report.render(report.cleaned(held_out, {"Keras": np.ldexp(predicted, -events.EXPONENT)})) + "\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
