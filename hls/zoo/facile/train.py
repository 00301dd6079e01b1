# SPDX-License-Identifier: Apache-2.0
"""Train FACILE, first in floating point, then with the fabric's quantisation, and write the files that the zoo ships.

Run it in a process with TF_USE_LEGACY_KERAS=1, as `hypersonic train facile` does:
`python -m hypersonic.hls.zoo.facile.train --output DIRECTORY`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.facile import events, network, recipe, report, scales
from hypersonic.hls.zoo.facile.recipe import Sample
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.training import Progress


@dataclass(frozen=True)
class Settings:
    """Seeds, sizes and schedules of the training. The defaults gave the shipped weights; they take 2 minutes on two idle cores.

    Attributes:
        starts: float networks that are trained briefly; training continues with the best one that is not dead (recipe.is_dead).
    """

    seed: int = training.SEED
    log_flat_events: int = 40
    physics_events: int = 16
    starts: int = 4
    scout: Schedule = field(default_factory=lambda: Schedule(6, 2e-3, 2048, 0.002))
    floating: Schedule = field(default_factory=lambda: Schedule(120, 2e-3, 2048, 0.002))
    quantised: Schedule = field(default_factory=lambda: Schedule(6, 3e-6, 2048, 0.002))
    biases: Schedule = field(default_factory=lambda: Schedule(8, 3e-4, 2048, 0.002))


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    Attributes:
        quantised: the tf_keras model with QKeras layers.
        floating: the float network.
        losses: of each start, infinite if it died.
    """

    quantised: object
    floating: scales.Network
    losses: tuple[float, ...]


class DeadNetworkError(RuntimeError):
    """Training ended with a constant output, because the ReLU units of the bottleneck never fire."""


def train(settings: Settings, progress: Progress = lambda _: None) -> Trained:
    """Train the float network, then the quantised one.

    Args:
        progress: receives one line per epoch.

    Raises:
        DeadNetworkError: When every start ends in a constant output.
    """
    sample = recipe.training_sample(settings.log_flat_events, settings.physics_events, settings.seed)
    losses = tuple(_scout(sample, settings, start, progress) for start in range(settings.starts))
    best = int(np.argmin(losses))
    if not np.isfinite(losses[best]):
        raise DeadNetworkError(f"all {settings.starts} starts died (constant output): use more starts or another seed")
    model = network.float_model(recipe.initial_network(sample, settings.seed + best))
    network.fit(model, sample, settings.floating, progress)
    floating = network.network_of(model)
    snapped = replace(sample, x=network.quantised_inputs(sample.x))
    quantised = network.quantised_model(scales.equalise(floating, sample.x))
    network.fit(quantised, snapped, settings.quantised, progress)
    # quantised kernels jump between grid points while they are trained; the biases settle once the kernels are fixed
    network.fit(quantised, snapped, settings.biases, progress, biases_only=True)
    return Trained(quantised, floating, losses)


def _scout(sample: Sample, settings: Settings, start: int, progress: Progress) -> float:
    """Train briefly from one start and return the loss, infinite if the network is dead."""
    model = network.float_model(recipe.initial_network(sample, settings.seed + start))
    loss = network.fit(model, sample, settings.scout)
    dead = recipe.is_dead(scales.forward(network.network_of(model), sample.x[:20_000])[-1])
    progress(f"start {start}: loss {loss:.3f}{', dead' if dead else ''}")
    return float("inf") if dead else loss


def write(trained: Trained, directory: Path) -> None:
    """Write facile.h5 (QKeras), facile_float.npz and facile.yaml into the directory, replacing each file atomically."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".facile-", dir=directory) as place:
        scratch = Path(place)
        keras_2.save(trained.quantised, scratch / "facile.h5")
        scales.save(trained.floating, scratch / "facile_float.npz")
        shutil.copy(Path(__file__).with_name("facile.yaml"), scratch)
        for file in scratch.iterdir():
            file.replace(directory / file.name)


def quality(trained: Trained, held_out: events.Events) -> str:
    """Return the resolution table of the float network, the QKeras model and the baselines on events not trained on."""
    predictions: dict[str, NDArray[np.float64]] = {
        "float": scales.predict(trained.floating, held_out.rows),
        "QKeras": network.predict(trained.quantised, held_out.rows),
        **report.baselines(held_out.rows),
    }
    empty = report.empty_channels(predictions, held_out.energy)
    return report.render(report.resolution_table(predictions, held_out.energy), empty)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = training.arguments("facile", "facile.h5, facile.yaml, facile_float.npz", __doc__, argv)
    trained = train(Settings(seed=asked.seed), asked.progress)
    write(trained, asked.output)
    sys.stdout.write(quality(trained, events.log_flat_events(10, recipe.HELD_OUT_SEED)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
