# SPDX-License-Identifier: Apache-2.0
"""Toy taus for DeepTau: the 47 features of a tau and the objects around it in two grids of cells.

The inner grid has 11 x 11 cells of 0.02 in eta and phi, the outer one 21 x 21 of 0.05. A cell describes the hardest object of
each kind. It has the published number of features: the first four are the tau's, then follow, for each kind of object, whether
there is one, its transverse momentum over the tau's, its position, and toy numbers for its shape. An empty cell is all 0. This
is not a physics generator. Only numpy; tau i depends on (seed, i) only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.deeptau.network import CELL_FEATURES, CLASSES, GRIDS, TAU_FEATURES

Float = NDArray[np.float64]
Array = NDArray[np.float32]
Input = Array | NDArray[np.int64]

CELL_SIZE = {"inner": 0.02, "outer": 0.05}
#: kinds of objects in a cell, two for each kind of particle; their blocks of features follow each other
BLOCKS = tuple((kind, block) for kind in CELL_FEATURES for block in (0, 1))
OWN = 4  # features of the tau that every cell repeats: density, pt, eta, in the crack between barrel and endcap

#: by class: mean number of objects of each block (electrons, photons, two kinds of muons, charged and neutral hadrons) near the
#: axis, and the width of their distribution
_NEAR = {
    "e": ((1.2, 0.8, 0.0, 0.0, 0.3, 0.2), 0.02), "mu": ((0.0, 0.1, 1.0, 1.0, 0.2, 0.1), 0.01),
    "tau": ((0.1, 1.6, 0.05, 0.05, 1.8, 0.3), 0.03), "jet": ((0.1, 4.0, 0.1, 0.1, 5.0, 1.5), 0.08),
}  # fmt: skip
#: mean number of objects of each block in the isolation cone, for every class
_AROUND = (0.1, 6.0, 0.1, 0.1, 8.0, 2.0)
_CONE = 0.5


@dataclass(frozen=True)
class Taus:
    """Generated taus, all float32. Every field but `kind` is an input of the network.

    Attributes:
        input_tau: (n, 47). input_<grid>_<kind>: (n, cells, cells, features).
        kind: (n,), indices into CLASSES.
    """

    input_tau: Array
    input_inner_egamma: Array
    input_inner_muon: Array
    input_inner_hadrons: Array
    input_outer_egamma: Array
    input_outer_muon: Array
    input_outer_hadrons: Array
    kind: Array

    def inputs(self, first: int = 0, count: int | None = None) -> dict[str, Array]:
        """Return the network's inputs by name for `count` taus from index `first` on (None: all that follow)."""
        stop = None if count is None else first + count
        return {name: values[first:stop] for name, values in vars(self).items() if name != "kind"}


def generate(count: int, seed: int) -> Taus:
    """Generate `count` taus, in a millisecond each; the classes take turns."""
    tau = np.zeros((count, TAU_FEATURES), np.float32)
    grids = {
        f"input_{grid}_{kind}": np.zeros((count, cells, cells, features), np.float32)
        for grid, cells in GRIDS.items()
        for kind, features in CELL_FEATURES.items()
    }
    classes = np.arange(count) % len(CLASSES)
    for i in range(count):
        rng = np.random.default_rng([47, seed, i])
        near, width = _NEAR[CLASSES[classes[i]]]
        tau[i] = np.clip(rng.normal(0.3 * classes[i] - 0.5, 1.0, TAU_FEATURES), -5.0, 5.0)
        for (kind, block), close, far in zip(BLOCKS, near, _AROUND, strict=True):
            objects = _objects(rng, close, far, width)
            for grid in GRIDS:
                _fill(grids[f"input_{grid}_{kind}"][i], objects, tau[i, :OWN], block, CELL_SIZE[grid])
    return Taus(input_tau=tau, **grids, kind=classes.astype(np.float32))


def whole_grids(count: int, seed: int) -> Mapping[str, Input]:
    """Return the inputs of one request of `count` taus to deeptau."""
    return generate(count, seed).inputs()


def cell_lists(count: int, seed: int) -> Mapping[str, Input]:
    """Return the inputs of one request of `count` taus to deeptau_ensemble."""
    taus = generate(count, seed)
    inputs: dict[str, Input] = {"input_tau": taus.input_tau}
    for grid in GRIDS:
        cells, places = cells_of(taus, grid)
        inputs |= {**cells, f"input_{grid}_pos": places}
    return inputs


def cells_of(taus: Taus, grid: str) -> tuple[dict[str, Array], NDArray[np.int64]]:
    """Return a grid as CMS sends it to the ensemble: a list of the cells that are not empty, with one empty cell at the end.

    The result is input_<grid>_<kind> (cells + 1, 1, 1, features) by name, and the indices (cells, 3) of tau, eta and phi.
    """
    whole = {f"input_{grid}_{kind}": getattr(taus, f"input_{grid}_{kind}") for kind in CELL_FEATURES}
    places = np.argwhere(np.any([values.any(axis=-1) for values in whole.values()], axis=0))
    lists = {}
    for name, values in whole.items():
        rows = np.concatenate([values[tuple(places.T)], np.zeros((1, values.shape[-1]), np.float32)])
        lists[name] = rows[:, None, None, :]
    return lists, places.astype(np.int64)


def _objects(rng: np.random.Generator, near: float, around: float, width: float) -> Float:
    """Return objects (k, 4 + 40), softest first: 1, pt over the tau's, eta and phi from the axis, then the shape's numbers."""
    close, far = rng.poisson(near), rng.poisson(around)
    place = np.concatenate([rng.normal(0.0, width, (close, 2)), rng.uniform(-_CONE, _CONE, (far, 2))])
    momentum = np.concatenate([rng.beta(2.0, 2.0, close), rng.exponential(0.03, far)])
    shape = np.clip(rng.normal(0.0, 1.0, (close + far, 40)) + momentum[:, None], -5.0, 5.0)
    columns = np.column_stack([np.ones(close + far), momentum, place, shape])
    return columns[np.argsort(momentum)]


def _fill(grid: Array, objects: Float, own: Array, block: int, cell_size: float) -> None:
    """Put the objects into a tau's grid (cells, cells, features); of several in one cell the hardest, the last, remains."""
    cells, features = len(grid), grid.shape[-1]
    place = np.rint(objects[:, 2:4] / cell_size).astype(np.int64) + cells // 2
    inside = ((place >= 0) & (place < cells)).all(axis=1)
    size = (features - OWN) // 2
    for (eta, phi), numbers in zip(place[inside], objects[inside], strict=True):
        grid[eta, phi, :OWN] = own
        grid[eta, phi, OWN + block * size : OWN + (block + 1) * size] = numbers[:size]
