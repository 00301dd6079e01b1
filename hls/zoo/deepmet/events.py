# SPDX-License-Identifier: Apache-2.0
"""Toy events for DeepMET: up to 4500 candidates with 8 features and 3 categories each, and the true missing momentum.

A boson escapes undetected. The hadrons of its recoil balance it exactly in the transverse plane before detector smearing.
Pile-up adds candidates, which balance in each collision up to fluctuations; most charged ones point to other vertices. This is
not a physics generator. Only numpy; event i depends on (seed, i) only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]

CANDIDATES = 4500
HELD_OUT_SEED = 9001  # results are quoted on events of this seed and above, which are not trained on
SCALE_GEV = 50.0  # the network's unit of momentum, as in CMS
#: in the order of CMS
FEATURES = ("dxy", "dz", "eta", "mass", "pt", "puppi_weight", "px", "py")
CHARGES = (-1, 0, 1)
PDG_IDS = (-211, -13, -11, 0, 1, 2, 11, 13, 22, 130, 211)  # 0: none; 1 and 2: hadrons and photons of the forward calorimeter
FROM_PV = (0, 1, 2, 3)
CATEGORIES = (len(CHARGES), len(PDG_IDS), len(FROM_PV))
_MASS_GEV = {-211: 0.1396, 211: 0.1396, 22: 0.0, 130: 0.4976, -13: 0.1057, 13: 0.1057, -11: 0.0005, 11: 0.0005, 1: 0.0, 2: 0.0}


@dataclass(frozen=True)
class Events:
    """Events, all arrays float32.

    Attributes:
        features: (n, 4500, 8) in cm, cm, 1, GeV, GeV, 1, GeV, GeV, in the order of FEATURES; 0 in empty places.
        categories: (n, 4500, 3), indices into CHARGES, PDG_IDS and FROM_PV; charge 0, no particle and 0 in empty places.
        met: (n, 2), px and py of the missing momentum in GeV.
    """

    features: NDArray[np.float32]
    categories: NDArray[np.float32]
    met: NDArray[np.float32]


def generate(count: int, seed: int) -> Events:
    """Generate `count` events, in a few milliseconds each."""
    features = np.zeros((count, CANDIDATES, len(FEATURES)), np.float32)
    categories = np.zeros((count, CANDIDATES, len(CATEGORIES)), np.float32)
    categories[:, :, 0], categories[:, :, 1] = CHARGES.index(0), PDG_IDS.index(0)
    met = np.zeros((count, 2), np.float32)
    for i in range(count):
        rng = np.random.default_rng([4500, seed, i])
        boson, recoil = hard_collision(rng)
        candidates = _candidates(rng, recoil, _pile_up(rng))
        features[i, : len(candidates[0])], categories[i, : len(candidates[0])], met[i] = *candidates, boson
    return Events(features, categories, met)


def hard_collision(rng: np.random.Generator) -> tuple[Float, Float]:
    """Return the boson's (px, py) in GeV and the hadrons of the recoil (k, 3): px, py, eta. All momenta add up to zero."""
    size, phi = 5.0 + rng.exponential(45.0), rng.uniform(0.0, 2.0 * np.pi)
    boson = size * np.array([np.cos(phi), np.sin(phi)])
    jets = 1 + rng.poisson(0.6)
    axis = np.column_stack([_balanced(rng, -boson, jets, 12.0), rng.normal(0.0, 1.6, jets)])
    hadrons = [np.zeros((0, 3))]
    for px, py, eta in axis:
        pieces = 4 + rng.poisson(3.0 + 2.5 * np.log1p(np.hypot(px, py)))
        share = rng.dirichlet(np.full(pieces, 0.6))
        momentum = share[:, None] * [px, py] + _kicks(rng, pieces, 0.5)
        hadrons.append(np.column_stack([momentum, eta + rng.normal(0.0, 0.15, pieces)]))
    underlying = 20 + rng.poisson(20)
    hadrons.append(np.column_stack([_kicks(rng, underlying, 0.7), rng.uniform(-4.5, 4.5, underlying)]))
    return boson, np.concatenate(hadrons)


def _balanced(rng: np.random.Generator, total: Float, count: int, spread: float) -> Float:
    """Return `count` momenta (count, 2) whose sum is `total`."""
    return np.asarray(rng.dirichlet(np.full(count, 2.0))[:, None] * total + _kicks(rng, count, spread))


def _kicks(rng: np.random.Generator, count: int, spread: float) -> Float:
    """Return momenta (count, 2) whose sum is zero."""
    kicks = rng.normal(0.0, spread, (count, 2))
    return np.asarray(kicks - kicks.mean(axis=0)) if count > 1 else np.zeros((count, 2))


def _pile_up(rng: np.random.Generator) -> Float:
    """Return the hadrons (k, 3) of the other collisions: px, py, eta."""
    collisions = rng.poisson(35)
    count = np.minimum(rng.negative_binomial(3, 3 / (3 + 38), collisions), 300)
    total = min(int(count.sum()), CANDIDATES - 600)
    collision = np.repeat(np.arange(collisions), count)[:total]
    pt, phi = rng.exponential(0.75, total) + 0.2, rng.uniform(0.0, 2.0 * np.pi, total)
    momentum = np.column_stack([pt * np.cos(phi), pt * np.sin(phi)])
    for axis in (0, 1):  # momenta balance within each collision
        mean = np.bincount(collision, momentum[:, axis], collisions) / np.maximum(
            np.bincount(collision, minlength=collisions), 1
        )
        momentum[:, axis] -= mean[collision]
    return np.column_stack([momentum, rng.uniform(-4.7, 4.7, total)])


def _candidates(rng: np.random.Generator, hard: Float, pile_up: Float) -> tuple[Float, Float]:
    """Return the reconstructed candidates, largest pt first: features (k, 8) and categories (k, 3)."""
    momentum = np.concatenate([hard, pile_up])
    from_hard = np.arange(len(momentum)) < len(hard)
    pdg = _identity(rng, momentum[:, 2])
    charge = np.where(np.abs(pdg) > 10, np.sign(pdg) * np.where(np.isin(np.abs(pdg), (11, 13)), -1, 1), 0)
    charge = np.where(np.isin(pdg, (22, 130)), 0, charge)
    pt = np.hypot(momentum[:, 0], momentum[:, 1])
    worse = np.where(charge != 0, 0.01, np.where(pdg == 22, 0.05, 0.35)) * np.where(
        charge != 0, 1.0, 1.0 / np.sqrt(1.0 + 0.2 * pt)
    )
    measured = momentum[:, :2] * np.maximum(1.0 + worse * rng.normal(size=len(pt)), 0.0)[:, None]
    pt = np.hypot(measured[:, 0], measured[:, 1])
    dz = np.where(charge != 0, rng.normal(0.0, np.where(from_hard, 0.01, 5.0)), 0.0)
    dxy = np.where(charge != 0, rng.normal(0.0, 0.01, len(pt)), 0.0)
    vertex = np.where(charge == 0, 1, np.select([np.abs(dz) < 0.03, np.abs(dz) < 0.1], [3, 2], 0))
    neutral = np.where(from_hard, rng.beta(4.0, 1.5, len(pt)), rng.beta(0.6, 4.0, len(pt)))
    puppi = np.where(charge != 0, (vertex >= 2).astype(np.float64), neutral)
    mass = np.select([pdg == kind for kind in _MASS_GEV], list(_MASS_GEV.values()), 0.0)
    order = np.argsort(-pt)
    order = order[pt[order] > 0.1][:CANDIDATES]
    features = np.column_stack([dxy, dz, momentum[:, 2], mass, pt, puppi, measured])
    places = np.column_stack([charge + 1, np.searchsorted(PDG_IDS, pdg), vertex])
    return features[order], places[order]


def _identity(rng: np.random.Generator, eta: Float) -> Int:
    """Return PDG codes: all kinds within the tracker, photons and neutral hadrons beyond it, and two kinds of forward
    towers."""
    central = rng.choice(
        [-211, 211, 22, 130, -13, 13, -11, 11], len(eta), p=[0.29, 0.29, 0.27, 0.14, 0.0025, 0.0025, 0.0025, 0.0025]
    )
    beyond = rng.choice([22, 130], len(eta), p=[0.6, 0.4])
    forward = rng.choice([1, 2], len(eta))
    return np.select([np.abs(eta) < 2.5, np.abs(eta) < 3.0], [central, beyond], forward)


def puppi_met(events: Events) -> Float:
    """Return minus the sum of momenta weighted by PUPPI (n, 2) in GeV, the estimate that DeepMET is compared with."""
    weighted = events.features[:, :, 6:8].astype(np.float64) * events.features[:, :, 5:6]
    return np.asarray(-weighted.sum(axis=1))


def network_inputs(events: Events, candidates: int = CANDIDATES) -> list[NDArray[np.float32]]:
    """Return the network's four inputs for the first `candidates` candidates of each event, float32.

    They are three arrays of categories (n, candidates) and the features (n, candidates, 8), with momenta in units of SCALE_GEV
    and dxy, dz clipped to +-1 cm.
    """
    x = events.features[:, :candidates].copy()
    x[:, :, [4, 6, 7]] /= SCALE_GEV
    x[:, :, :2] = np.clip(x[:, :, :2], -1.0, 1.0)
    return [*(events.categories[:, :candidates, i] for i in range(len(CATEGORIES))), x]


def gate_rows() -> list[NDArray[np.float32]]:
    """Return four events, flattened as on the wire, on which a conversion is compared with its network.

    They are three arrays of categories (4, 4500) and the features (4, 36000).
    """
    return [x.reshape(4, -1) for x in network_inputs(generate(4, HELD_OUT_SEED + 1))]
