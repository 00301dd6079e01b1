# SPDX-License-Identifier: Apache-2.0
"""Train the jet tagger, first in floating point, then quantised, and write the files that the zoo ships.

`python -m hypersonic.hls.zoo.jets.train --output DIRECTORY`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.jets import events, network, report
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.training import Progress


@dataclass(frozen=True)
class Settings:
    """Seed, sizes and schedules of the training. The defaults gave the shipped weights; they take about two minutes."""

    seed: int = training.SEED
    jets: int = 60_000
    floating: Schedule = field(default_factory=lambda: Schedule(40, 3e-3, 512))
    quantised: Schedule = field(default_factory=lambda: Schedule(15, 5e-4, 512))


@dataclass(frozen=True)
class Trained:
    """Result of a training: the float tf_keras model and the QKeras model."""

    floating: Any
    quantised: Any


def train(settings: Settings, progress: Progress = lambda _: None) -> Trained:
    """Train the float model, then the quantised one.

    Args:
        progress: receives one line per epoch.
    """
    keras_2.seed_weights(settings.seed)
    jets = events.jets(settings.jets, settings.seed)
    mean = network.mean_of(jets.rows)
    floating = network.float_model()
    x, label = [events.network_inputs(jets.rows) - mean], jets.label.astype(np.float32)
    keras_2.fit(floating, x, label, keras_2.cross_entropy, settings.floating, progress)
    quantised = network.quantised_model(floating)
    keras_2.fit(quantised, x, label, keras_2.cross_entropy, settings.quantised, progress)
    keras_2.snap(quantised)
    for model in (floating, quantised):
        network.absorb_mean(model, mean)
    return Trained(floating, quantised)


def write(trained: Trained, directory: Path) -> None:
    """Write jets_float.npz, jets.h5 and jets_logits.h5; the latter two have the same weights, with and without softmax."""
    directory.mkdir(parents=True, exist_ok=True)
    keras_2.save(trained.quantised, directory / "jets.h5")
    keras_2.save(network.quantised_model(trained.quantised, softmax=False), directory / "jets_logits.h5")
    report.save_float(directory / "jets_float.npz", [np.asarray(w) for w in trained.floating.get_weights()])


def quality(trained: Trained, held_out: events.Jets) -> str:
    """Return a table with the AUCs of the float and the QKeras model on jets not trained on."""
    outputs = {
        "float": network.predict(trained.floating, held_out.rows),
        "QKeras": network.predict(trained.quantised, held_out.rows),
    }
    return report.render(report.tagging(outputs, held_out.label))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = training.arguments("jets", "jets.h5, jets_logits.h5 and jets_float.npz", __doc__, argv)
    trained = train(Settings(seed=asked.seed), asked.progress)
    write(trained, asked.output)
    sys.stdout.write(quality(trained, events.jets(20_000, events.HELD_OUT_SEED)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
