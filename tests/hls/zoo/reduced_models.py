# SPDX-License-Identifier: Apache-2.0
"""The zoo's large networks with a few units each, described by the YAMLs that ship, converted in one process:

    python tests/hls/zoo/reduced_models.py DIRECTORY

writes DIRECTORY/<name>/ (HLS project and rf core). What a smaller network has not is left out of its YAML, reuse factors are
replaced by ones that divide, and the gate's rows, which are the large network's, by random ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.zoo import keras_2, seeded
from hypersonic.hls.zoo.deepcalo import network as deepcalo
from hypersonic.hls.zoo.deepclean import events as deepclean_events
from hypersonic.hls.zoo.deepclean import network as deepclean
from hypersonic.hls.zoo.deepmet import events
from hypersonic.hls.zoo.deepmet import network as deepmet
from hypersonic.hls.zoo.emtrk import network as emtrk
from hypersonic.hls.zoo.emtrk.weights import GRIDS

SMALL = deepcalo.Sizes(eta=4, phi=2, blocks=(2, 4), dense=4, track=2, scalars=(4,), film=8)
CANDIDATES = 64
SAMPLES = 1024  # the first that DeepClean finds leave long before its last have come
#: rows that random ones cannot stand for: Keras knows no other categories than there are
ROWS = {"deepmet": "few_candidates", "deepclean": "few_samples"}


def cut_emtrk() -> Any:
    """Few inputs have large weights: cut to the type that 92 928 fit in."""
    model = emtrk.network(1, 8)
    for name, grid in GRIDS.items():
        model.get_layer(name).set_weights([seeded.on_grid(weights, grid) for weights in model.get_layer(name).get_weights()])
    return model


def shipped_deepclean() -> Any:
    """With the weights that ship: its types have two integer bits, which random weights leave."""
    model = deepclean.network(samples=SAMPLES)
    model.load_weights(ZOO / "deepclean" / "deepclean.h5")
    return model


def few_samples() -> np.ndarray[Any, Any]:
    """The first of some segments, for DeepClean with so many."""
    return deepclean_events.generate(4, 5).witness[:, :SAMPLES].reshape(4, -1)


def few_candidates() -> list[np.ndarray[Any, Any]]:
    """The hardest 64 candidates of some events, for DeepMET with so many."""
    return [x.reshape(len(x), -1) for x in events.network_inputs(events.generate(8, 5), CANDIDATES)]


NETWORKS: dict[str, Callable[[], Any]] = {
    "deepcalo": lambda: deepcalo.network(sizes=SMALL),
    "deepcalo_film": lambda: deepcalo.film_network(sizes=SMALL),
    "deepclean": shipped_deepclean,
    "deepmet": lambda: deepmet.network(CANDIDATES),
    "emtrk_packed": cut_emtrk,
}


def described(name: str, model: Any) -> dict[str, Any]:
    """The YAML that ships, for a model with fewer layers and units."""
    description: dict[str, Any] = yaml.safe_load((ZOO / name / f"{name}.yaml").read_text())
    layers = {layer.name for layer in model.layers}
    named = description["hls4ml"]["LayerName"]
    kept = {layer: dict(options) for layer, options in named.items() if {layer, layer.rpartition("_")[0]} & layers}
    for layer, options in kept.items():
        if "ReuseFactor" in options:
            kernel = model.get_layer(layer).get_weights()[0]
            options["ReuseFactor"] = kernel.size // kernel.shape[-1]  # a multiplier for each output
    description["hls4ml"]["LayerName"] = kept
    for tensor in description.get("inputs", {}).values():
        tensor.pop("shape", None)
    del description["gate"]
    if name in ROWS:
        description["gate"] = {
            "rows": f"tests.hls.zoo.reduced_models:{ROWS[name]}",
            "tolerance": "none",
            "quantised_tolerance": 1.0,
        }
    return description


def main(directory: Path) -> None:
    use_keras_2()
    for name, build in NETWORKS.items():
        model = build()
        rng = np.random.default_rng(5)
        for layer in model.layers:  # what begins at zero would say nothing
            weights = layer.get_weights()
            if weights and not weights[-1].any():
                layer.set_weights([*weights[:-1], rng.normal(0.0, 0.01, weights[-1].shape)])
        file = directory / f"{name}.h5"
        keras_2.save(model, file)
        file.with_suffix(".yaml").write_text(yaml.safe_dump(described(name, model)))
        convert(file, directory / name, core="rf")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
