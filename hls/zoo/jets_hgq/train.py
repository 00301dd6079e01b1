# SPDX-License-Identifier: Apache-2.0
"""Train the jet tagger with HGQ2 and write the file that the zoo ships.

`python -m hypersonic.hls.zoo.jets_hgq.train --output DIRECTORY` takes a few minutes. HGQ2 is installed into the cache first if
it is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from hypersonic.hls.zoo import hgq_2, training
from hypersonic.hls.zoo.hgq_2 import Array, Schedule
from hypersonic.hls.zoo.jets import events, report
from hypersonic.hls.zoo.jets.events import HELD_OUT_SEED, Jets
from hypersonic.hls.zoo.jets_hgq import network
from hypersonic.hls.zoo.training import Progress


@dataclass(frozen=True)
class Recipe:
    """A training of a jet tagger with HGQ2; the values in a model's train.py gave the shipped file.

    Attributes:
        model: its name.
        network: returns it with initial weights.
        jets: (count, seed) -> the sample.
        inputs: rows -> inputs of the network.
        references: rows -> probabilities of other methods, by their names in the table of results.
    """

    model: str
    network: Callable[[], Any]
    jets: Callable[[int, int], Jets]
    inputs: Callable[[ArrayLike], Array]
    schedule: Schedule
    count: int = 100_000
    references: Callable[[Array], Mapping[str, ArrayLike]] = lambda _: {}
    seed: int = training.SEED


def train(recipe: Recipe, progress: Progress = lambda _: None) -> tuple[Any, float]:
    """Return the trained Keras 3 model and its cost in EBOPs.

    Args:
        progress: receives one line per epoch.
    """
    hgq_2.keras().utils.set_random_seed(recipe.seed)
    jets = recipe.jets(recipe.count, recipe.seed)
    model = recipe.network()
    return model, hgq_2.fit(model, recipe.inputs(jets.rows), jets.label, recipe.schedule, progress)


def main(recipe: Recipe, about: str | None, argv: Sequence[str] | None = None) -> int:
    """Run a recipe's command line (argv: without the program name; None: sys.argv) and return the exit code."""
    asked = training.arguments(recipe.model, f"{recipe.model}.keras", about, argv)
    code = hgq_2.run_in_environment(f"hypersonic.hls.zoo.{recipe.model}.train", sys.argv[1:] if argv is None else argv)
    if code is not None:
        return code
    model, cost = train(replace(recipe, seed=asked.seed), asked.progress)
    hgq_2.save(model, asked.output / f"{recipe.model}.keras")
    held_out = recipe.jets(20_000, HELD_OUT_SEED)
    logits = hgq_2.predict(model, recipe.inputs(held_out.rows))
    methods = {**recipe.references(held_out.rows), "HGQ2": report.softmax(logits)}
    sys.stdout.write(f"{report.render(report.tagging(methods, held_out.label))}\n{cost:,.0f} EBOPs\n")
    return 0


RECIPE = Recipe(
    "jets_hgq",
    network.network,
    events.jets,
    events.network_inputs,
    Schedule(80, 3e-3, 512, (1e-7, 3e-6), trial=15),
    references=lambda rows: {"float": report.float_predict(rows)},
)

if __name__ == "__main__":
    sys.exit(main(RECIPE, __doc__))
