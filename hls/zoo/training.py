# SPDX-License-Identifier: Apache-2.0
"""The training of a network with one sample and one schedule, and the command line that all trainings of the zoo share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.keras_2 import Array, Schedule
from hypersonic.hls.zoo.task import Task

Progress = Callable[[str], None]
SEED = 1  # of the shipped weights


@dataclass(frozen=True)
class Recipe:
    """A training with Keras 2; the values in a model's train.py gave the shipped weights.

    Attributes:
        model: its name.
        network: returns it with initial weights.
        sample: (count, seed) -> inputs of the network and targets.
        loss, schedule: see keras_2.fit.
        count: rows of the sample.
        quality: a text about a trained model, on rows not trained on.
    """

    model: str
    network: Callable[[], Any]
    sample: Callable[[int, int], tuple[Sequence[Array], Array]]
    loss: Callable[[Any, Any], Any]
    count: int
    schedule: Schedule
    quality: Callable[[Any], str]
    seed: int = SEED


def train(recipe: Recipe, progress: Progress = lambda _: None) -> Any:
    """Return the trained tf_keras model, its QKeras layers rounded to their types.

    Args:
        progress: receives one line per epoch.
    """
    keras_2.seed_weights(recipe.seed)
    model = recipe.network()
    inputs, target = recipe.sample(recipe.count, recipe.seed)
    keras_2.fit(model, inputs, target, recipe.loss, recipe.schedule, progress)
    keras_2.snap(model)
    return model


def main(recipe: Recipe, about: str | None, argv: Sequence[str] | None = None) -> int:
    """Run a recipe's command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = arguments(recipe.model, f"{recipe.model}.h5", about, argv)
    model = train(replace(recipe, seed=asked.seed), asked.progress)
    keras_2.save(model, asked.output / f"{recipe.model}.h5")
    sys.stdout.write(recipe.quality(model) + "\n")
    return 0


def merit(task: Task, predict: Callable[[Any, NDArray[Any]], NDArray[np.float64]], count: int) -> Callable[[Any], str]:
    """Return a Recipe's `quality`: the task's figure of merit on `count` rows.

    Args:
        predict: (model, rows in wire units) -> output.
    """

    def quality(model: Any) -> str:
        sample = task.sample(count, 0)
        return f"{task.figure}: {task.measured((predict(model, sample.inputs[0]),), sample.truth):.4f}"

    return quality


def arguments(
    model: str,
    files: str,
    about: str | None,
    argv: Sequence[str] | None,
    add: Callable[[argparse.ArgumentParser], None] = lambda _: None,
) -> argparse.Namespace:
    """Return a training's arguments: output, an existing directory, seed, and progress, which receives a line per epoch.

    Args:
        files: names of those that are written.
        about: the description.
        argv: without the program name; None: sys.argv.
        add: adds the model's own options.
    """
    parser = argparse.ArgumentParser(prog=f"hypersonic train {model}", description=about)
    parser.add_argument("--output", type=Path, required=True, help=f"directory for {files}")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--quiet", dest="progress", action="store_const", const=lambda _: None, default=_say, help="no progress"
    )
    add(parser)
    asked = parser.parse_args(argv)
    asked.output.mkdir(parents=True, exist_ok=True)
    return asked


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
