# SPDX-License-Identifier: Apache-2.0
"""DeepCalo's weights, drawn from a seed (hls/zoo/seeded.py), because 1.8 and 3.5 million weights are too many to ship.

Only the last layer is fitted: 257 numbers that read out random features, fitted to the energies of toy showers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo import keras_2, seeded
from hypersonic.hls.zoo.deepcalo import events, network

#: ap_fixed<width, integer> of the kernels: as published, and finer for gamma, beta and the last layer, which need it
CONVOLUTION, DENSE, FILM, ENERGY = (6, 1), (16, 10), (12, 1), (16, 6)
_SIZE = 24.0  # of a layer's outputs, whose type ends at 32
_GAMMA, _BETA = 0.4, 6.0  # range of gamma around 1 and of beta around 0
_FITTED = 2000  # showers that the last layer is fitted to


def save(file: Path) -> None:
    """Write the network on the image alone to `file` (.h5)."""
    keras_2.save(image_model(), file)


def save_film(file: Path) -> None:
    """Write the network with scalars and tracks to `file` (.h5)."""
    keras_2.save(film_model(), file)


def image_model(*, seed: int = 1, fitted: int = _FITTED) -> Any:
    """Return the tf_keras model on the image alone.

    Args:
        fitted: showers that the last layer is fitted to.
    """
    model = network.network(seed=seed)
    seeded.spread(model, _inputs(model, events.generate(8, seed)), _grids(model), _SIZE)
    return _fitted(model, events.generate(fitted, seed + 1))


def film_model(*, seed: int = 1, fitted: int = _FITTED) -> Any:
    """Return the tf_keras model with scalars and tracks.

    Args:
        fitted: showers that the last layer is fitted to.
    """
    model = network.film_network(seed=seed)
    few = _inputs(model, events.generate(8, seed))
    for prefixes, size in ((("track", "film"), _SIZE), (("gamma",), _GAMMA), (("beta",), _BETA)):
        seeded.spread(model, few, {name: FILM for name in _trained(model) if name.startswith(prefixes)}, size)
    for name in _trained(model):
        if name.startswith("gamma"):
            kernel, bias = model.get_layer(name).get_weights()
            model.get_layer(name).set_weights([kernel, np.ones_like(bias)])
    seeded.spread(model, few, _grids(model), _SIZE)
    return _fitted(model, events.generate(fitted, seed + 1))


def _grids(model: Any) -> dict[str, seeded.Grid]:
    """Return the types of the kernels of the image's layers, first to last."""
    names = (name for name in _trained(model) if name.startswith(("conv", "dense")))
    return {name: CONVOLUTION if "conv" in name else DENSE for name in names}


def _trained(model: Any) -> list[str]:
    """Return the names of the layers with weights, first to last."""
    return [layer.name for layer in model.layers if layer.get_weights()]


def _inputs(model: Any, candidates: events.Candidates) -> list[NDArray[np.float32]]:
    return [getattr(candidates, name) for name in model.input_names]


def _fitted(model: Any, candidates: events.Candidates) -> Any:
    """Fit the last layer to the energies, with errors relative to each shower's energy, and return the model."""
    features = seeded.layer_output(model, "leaky_dense1", _inputs(model, candidates))
    energy = candidates.energy.astype(np.float64)
    kernel, bias = seeded.fit_last(features, energy, 1.0 / energy, ENERGY, ridge=1e-5)
    model.get_layer("energy").set_weights([kernel, bias])
    return model
