# SPDX-License-Identifier: Apache-2.0
"""Trains FACILE: a float network, then the same network with the fabric's numbers, and writes what the zoo ships.

Runs in a process with TF_USE_LEGACY_KERAS=1: `python -m hypersonic.hls.zoo.facile.train --output DIRECTORY`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.facile import events, network, recipe, report, scales
from hypersonic.hls.zoo.facile.network import Schedule
from hypersonic.hls.zoo.facile.recipe import Sample

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    """No progress."""


@dataclass(frozen=True)
class Settings:
    """How long to train. The defaults, which made what ships, take 2 minutes of two idle cores."""

    seed: int = 1
    log_flat_events: int = 40
    physics_events: int = 16
    starts: int = 4  # float networks begun; the best one that is alive goes on
    scout: Schedule = field(default_factory=lambda: Schedule(6, 2e-3))
    floating: Schedule = field(default_factory=lambda: Schedule(120, 2e-3))
    quantised: Schedule = field(default_factory=lambda: Schedule(6, 3e-6))
    biases: Schedule = field(default_factory=lambda: Schedule(8, 3e-4))


@dataclass(frozen=True)
class Trained:
    """quantised: the tf_keras model with QKeras layers; floating: the float network; start: which attempt went on."""

    quantised: object
    floating: scales.Network
    losses: tuple[float, ...]  # of each start; infinite where the network had died


class DeadNetworkError(RuntimeError):
    """Every start ended with a constant output: the ReLU units of the bottleneck never fire."""


def train(settings: Settings, progress: Progress = _silent) -> Trained:
    """Raises DeadNetworkError when no start survives."""
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
    # rounded kernels jump from one grid point to the next as long as they train; with them at rest the biases settle
    network.fit(quantised, snapped, settings.biases, progress, biases_only=True)
    return Trained(quantised, floating, losses)


def _scout(sample: Sample, settings: Settings, start: int, progress: Progress) -> float:
    """A short training from one start: its loss, infinite when the network is dead."""
    model = network.float_model(recipe.initial_network(sample, settings.seed + start))
    loss = network.fit(model, sample, settings.scout)
    dead = recipe.is_dead(scales.forward(network.network_of(model), sample.x[:20_000])[-1])
    progress(f"start {start}: loss {loss:.3f}{', dead' if dead else ''}")
    return float("inf") if dead else loss


def write(trained: Trained, directory: Path) -> None:
    """facile.h5 (QKeras), facile_float.npz and facile.yaml into the directory, each in one move."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".facile-", dir=directory) as place:
        scratch = Path(place)
        network.save(trained.quantised, scratch / "facile.h5")
        scales.save(trained.floating, scratch / "facile_float.npz")
        shutil.copy(Path(__file__).with_name("facile.yaml"), scratch)
        for file in scratch.iterdir():
            file.replace(directory / file.name)


def quality(trained: Trained, held_out: events.Events) -> str:
    """The report of the float and the quantised network (its Keras form) on events not trained on, beside the baselines."""
    predictions: dict[str, NDArray[np.float64]] = {
        "float": scales.predict(trained.floating, held_out.rows),
        "QKeras": network.predict(trained.quantised, held_out.rows),
        **report.baselines(held_out.rows),
    }
    empty = report.empty_channels(predictions, held_out.energy)
    return report.render(report.resolution_table(predictions, held_out.energy), empty)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="hypersonic train facile", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory for facile.h5, facile.yaml, facile_float.npz")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_args(argv)
    trained = train(Settings(seed=arguments.seed), _silent if arguments.quiet else _say)
    write(trained, arguments.output)
    sys.stdout.write(quality(trained, events.log_flat_events(10, recipe.HELD_OUT_SEED)) + "\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
