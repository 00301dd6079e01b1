# SPDX-License-Identifier: Apache-2.0
"""Train the model and write the weights that the zoo ships, in a few seconds.

`hypersonic train my_model --output DIRECTORY`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.template.my_model import events, network, report


@dataclass(frozen=True)
class Settings:
    """Seed, sample size and schedule of the training. The defaults give the shipped weights."""

    seed: int = 1
    pulses: int = 8_000
    schedule: Schedule = field(default_factory=lambda: Schedule(30, 1e-2, 200))


def train(settings: Settings) -> Any:
    """Return the trained tf_keras model."""
    model = network.network(seed=settings.seed)
    network.fit(model, events.generate(settings.pulses, settings.seed), settings.schedule)
    return model


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    parser = argparse.ArgumentParser(prog="hypersonic train my_model", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory for my_model.h5")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    arguments = parser.parse_args(argv)
    model = train(Settings(seed=arguments.seed))
    arguments.output.mkdir(parents=True, exist_ok=True)
    keras_2.save(model, arguments.output / "my_model.h5")
    held_out = events.generate(2000, events.HELD_OUT_SEED)
    error = report.relative_width(network.predict(model, held_out.samples), held_out.height)
    sys.stdout.write(f"68 % width of height / true height: {error:.4f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
