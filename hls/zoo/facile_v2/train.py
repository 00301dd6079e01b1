# SPDX-License-Identifier: Apache-2.0
"""Train FACILE v2 in floating point, then quantised for shared multipliers (facile_v2) and for adders (facile_v2_da), and write
the files that the zoo ships.

`python -m hypersonic.hls.zoo.facile_v2.train --output DIRECTORY`.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypersonic.hls.zoo import keras_2, training
from hypersonic.hls.zoo.facile import events as facile_events
from hypersonic.hls.zoo.facile import network as facile_network
from hypersonic.hls.zoo.facile import scales
from hypersonic.hls.zoo.facile.recipe import HELD_OUT_SEED, Sample, is_dead
from hypersonic.hls.zoo.facile.train import DeadNetworkError
from hypersonic.hls.zoo.facile_v2 import network, recipe, report
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.training import Progress


@dataclass(frozen=True)
class Settings:
    """Seed, sizes and schedules of the training. The defaults gave the shipped weights; they take about five minutes."""

    seed: int = training.SEED
    log_flat_events: int = 14
    physics_events: int = 6
    floating: Schedule = field(default_factory=lambda: Schedule(45, 1e-3, 1024, 0.002))
    biases: Schedule = field(default_factory=lambda: Schedule(2, 2e-6, 2048, 0.002))
    unrolled: Schedule = field(default_factory=lambda: Schedule(40, 4e-4, 2048, 0.002))


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    Attributes:
        quantised: the tf_keras model with QKeras layers.
        unrolled: the same with fewer bits.
        floating: the float network, with its batch norms folded.
    """

    quantised: Any
    unrolled: Any
    floating: scales.Network


def train(settings: Settings, floating: scales.Network | None = None, progress: Progress = lambda _: None) -> Trained:
    """Train the float network and both quantised ones.

    Args:
        floating: a float network to use instead of training one.

    Raises:
        DeadNetworkError: When training ends in a constant output.
    """
    keras_2.keras()
    sample = recipe.training_sample(settings.log_flat_events, settings.physics_events, settings.seed)
    floating = floating or _train_float(sample, settings, progress)
    snapped = replace(sample, x=facile_network.quantised_inputs(sample.x))
    equalised = recipe.equalise(floating, sample.x)
    # 16-bit kernels need no further training
    quantised, unrolled = network.quantised_model(equalised), network.quantised_model(equalised, network.UNROLLED)
    facile_network.fit(unrolled, snapped, settings.unrolled, progress)
    for model in (quantised, unrolled):
        keras_2.snap(model)
        # the biases compensate for the rounding of the kernels
        facile_network.fit(model, snapped, settings.biases, progress, biases_only=True)
        keras_2.snap(model)
    return Trained(quantised, unrolled, floating)


def _train_float(sample: Sample, settings: Settings, progress: Progress) -> scales.Network:
    model = facile_network.float_model(recipe.initial_network(sample, settings.seed), "facile_v2_float")
    facile_network.fit(model, sample, settings.floating, progress)
    folded = scales.fold(facile_network.network_of(model))
    if is_dead(scales.forward(folded, sample.x[:20_000])[-1]):
        raise DeadNetworkError(f"the network died (constant output) with seed {settings.seed}: use another")
    return folded


def write(trained: Trained, directory: Path) -> None:
    """Write facile_v2.h5 and facile_v2_da.h5 (QKeras, one for each model folder) and facile_v2_float.npz into the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    keras_2.save(trained.quantised, directory / "facile_v2.h5")
    keras_2.save(trained.unrolled, directory / "facile_v2_da.h5")
    scales.save(trained.floating, directory / "facile_v2_float.npz")


def quality(trained: Trained, held_out: facile_events.Events) -> str:
    """Return the resolution table of the float network and the two QKeras models on events not trained on."""
    outputs = {
        "float": lambda rows: recipe.predict(trained.floating, rows),
        "QKeras": lambda rows: network.predict(trained.quantised, rows),
        "QKeras, 8 bits": lambda rows: network.predict(trained.unrolled, rows),
    }
    return report.resolution(outputs, held_out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = training.arguments("facile_v2", "facile_v2.h5, facile_v2_da.h5 and facile_v2_float.npz", __doc__, argv, _add)
    floating = scales.load(asked.floating) if asked.floating else None
    trained = train(Settings(seed=asked.seed), floating, asked.progress)
    write(trained, asked.output)
    sys.stdout.write(quality(trained, facile_events.log_flat_events(8, HELD_OUT_SEED)) + "\n")
    return 0


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("--floating", type=Path, help="facile_v2_float.npz to quantise, instead of training")


if __name__ == "__main__":
    sys.exit(main())
