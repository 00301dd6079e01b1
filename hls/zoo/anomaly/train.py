# SPDX-License-Identifier: Apache-2.0
"""Train the autoencoder on ordinary events and write the weights that the zoo ships; anomaly.yaml has the fixed-point types.

`python -m hypersonic.hls.zoo.anomaly.train --output DIRECTORY`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.anomaly import events, network, task
from hypersonic.hls.zoo.keras_2 import Schedule

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Seed, sample size and schedule of the training. The defaults gave the shipped weights; they take about a minute."""

    seed: int = 1
    events: int = 60_000
    schedule: Schedule = field(default_factory=lambda: Schedule(40, 3e-3, 512))


def train(settings: Settings, progress: Progress = lambda _: None) -> Any:
    """Return the trained tf_keras model. progress: receives one line per epoch."""
    keras_2.seed_weights(settings.seed)
    model = network.network()
    network.fit(model, events.ordinary(settings.events, settings.seed), settings.schedule, progress)
    return model


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hypersonic.hls.zoo.anomaly.train", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory for anomaly.h5")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_args(argv)
    model = train(Settings(seed=arguments.seed), (lambda _: None) if arguments.quiet else _say)
    arguments.output.mkdir(parents=True, exist_ok=True)
    keras_2.save(model, arguments.output / "anomaly.h5")
    held_out = events.mixture(10_000, events.HELD_OUT_SEED)
    for name, area in zip(events.SIGNALS, task.areas((network.predict(model, held_out.rows),), held_out.kind), strict=True):
        sys.stdout.write(f"{name}: AUC {area:.4f}\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
