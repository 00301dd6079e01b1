# SPDX-License-Identifier: Apache-2.0
"""Toy showers in a sampling calorimeter of 14 layers: the eight cells with the most energy, as rows. Only numpy.

A shower is a sum of points. An electron's points follow the usual profile along the depth, t**a * exp(-b * t) in radiation
lengths, and a narrow core with a tail across it. A pion interacts at an exponentially distributed depth; about a third of its
energy is an electromagnetic shower there, the rest is spread widely, with large fluctuations. The same seed gives the same
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding

Float = NDArray[np.float64]

HELD_OUT_SEED = 9_000  # results are quoted on showers of this seed and above, which are not trained on
HITS, FEATURES = 8, 4
LAYERS = 14
#: of a hit: the cell's place relative to the shower's axis in cells, its layer, and its share of the energy
NAMES = ("x", "y", "layer", "energy / energy of all cells")

#: type in the fabric of the features after scaling: steps of 2**-9
INPUT = FixedPoint(12, 3, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)
#: network input = number on the wire * 2**exponent
INPUT_EXPONENTS = (-1, -1, -2, 1) * HITS

_POINTS = 160  # into which a shower's energy is divided
_DEPTH_PER_LAYER = 1.8  # radiation lengths
_INTERACTION_LENGTH = 22.0  # radiation lengths
_CORE, _TAIL = 0.35, 1.6  # widths in cells
_THRESHOLD = 0.004  # of the energy, below which a cell is not read out
_SPAN = 15  # cells across


@dataclass(frozen=True)
class Showers:
    """Showers of electrons and pions.

    Attributes:
        rows: (n, 8, 4) float32 in the order of NAMES, most energetic hit first.
        electron: (n,) int64, 1 for electrons.
    """

    rows: NDArray[np.float32]
    electron: NDArray[np.int64]


def showers(count: int, seed: int) -> Showers:
    """Generate `count` showers of 10 to 100 GeV, electrons and pions in turn."""
    rows = np.zeros((count, HITS, FEATURES), np.float32)
    electron = (np.arange(count, dtype=np.int64) + 1) % 2
    for i in range(count):
        rng = np.random.default_rng([84, seed, i])
        energy = 10.0 ** rng.uniform(1.0, 2.0)
        rows[i] = _hits(rng, *(_electromagnetic(rng, energy, 0.0) if electron[i] else _hadronic(rng, energy)))
    return Showers(rows, electron)


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (1000, 32) on which a conversion is compared with its network."""
    return showers(1000, HELD_OUT_SEED + 500).rows.reshape(1000, -1)


def network_inputs(rows: ArrayLike) -> NDArray[np.float32]:
    """Return rows (n, 32) or (n, 8, 4) in wire units as the network's inputs (n, 8, 4): scaled and rounded to the fabric's
    type."""
    flat = np.ldexp(np.asarray(rows, np.float64).reshape(-1, HITS * FEATURES), np.array(INPUT_EXPONENTS))
    return INPUT.to_float(INPUT.from_float(flat)).astype(np.float32).reshape(-1, HITS, FEATURES)


# ---- points of a shower: depth in radiation lengths, x and y in cells, energy ---------------------------------------------


def _electromagnetic(rng: np.random.Generator, energy: float, begin: float, points: int = _POINTS) -> tuple[Float, Float]:
    """Return places (points, 3) and energies (points,) of an electromagnetic shower that begins at this depth."""
    largest = max(np.log(max(energy, 0.1) / 0.012) - 0.5, 1.0)
    depth = begin + rng.gamma(1.0 + 0.5 * largest * rng.uniform(0.85, 1.15), 2.0, points)
    width = np.where(rng.random(points) < 0.85, _CORE, _TAIL)
    across = rng.normal(size=(points, 2)) * width[:, None]
    return np.column_stack([depth, across]), rng.gamma(2.0, energy / points / 2.0, points)


def _hadronic(rng: np.random.Generator, energy: float) -> tuple[Float, Float]:
    """Return places and energies of a pion's shower: a track, then a core and a wide part at the first interaction."""
    begin, share = rng.exponential(_INTERACTION_LENGTH), rng.beta(2.0, 2.6)
    core = _electromagnetic(rng, share * energy, begin, _POINTS // 2)
    wide = _POINTS // 2
    depth = begin + rng.exponential(0.6 * _INTERACTION_LENGTH, wide)
    spread = rng.normal(size=(wide, 2)) * (0.5 + 0.12 * (depth - begin))[:, None]
    energies = rng.gamma(0.4, (1.0 - share) * energy / wide / 0.4, wide)
    track = np.column_stack([np.arange(0.0, min(begin, LAYERS * _DEPTH_PER_LAYER), _DEPTH_PER_LAYER)] * 3)
    track[:, 1:] = 0.0
    places = np.concatenate([core[0], np.column_stack([depth, spread]), track])
    return places, np.concatenate([core[1], energies, np.full(len(track), 0.03 * rng.gamma(4.0, 0.25))])


def _hits(rng: np.random.Generator, places: Float, energies: Float) -> NDArray[np.float32]:
    """Return the row (8, 4) of a shower whose axis passes the middle cell somewhere."""
    axis = rng.uniform(-0.5, 0.5, 2)
    layer = (places[:, 0] / _DEPTH_PER_LAYER).astype(np.int64)
    cell = np.rint(places[:, 1:] + axis).astype(np.int64) + _SPAN // 2
    inside = (layer < LAYERS) & (cell.min(axis=1) >= 0) & (cell.max(axis=1) < _SPAN)
    grid = np.zeros((LAYERS, _SPAN, _SPAN))
    np.add.at(grid, (layer[inside], cell[inside, 0], cell[inside, 1]), energies[inside])
    grid *= np.maximum(1.0 + 0.1 * rng.normal(size=grid.shape), 0.0)
    total = max(float(grid.sum()), 1e-9)
    hardest = np.argsort(-grid, axis=None, kind="stable")[:HITS]
    share = grid.reshape(-1)[hardest] / total
    depth, x, y = np.unravel_index(hardest, grid.shape)
    row = np.column_stack([x - _SPAN // 2 - axis[0], y - _SPAN // 2 - axis[1], depth, share])
    return np.asarray(np.where((share > _THRESHOLD)[:, None], row, 0.0), np.float32)
