# SPDX-License-Identifier: Apache-2.0
"""Toy AK4 jets for ParticleNet: candidates and secondary vertices around the jet's axis, normalised as in CMS.

Heavy quarks have secondary vertices and displaced tracks, gluons are wider than light quarks, and pile-up jets have no core.
This is not a physics generator. Only numpy; jet i depends on (seed, i) only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.particlenet.network import LABELS

Float = NDArray[np.float64]
Array = NDArray[np.float32]

#: places per jet, as in the plots of the GPU studies
CANDIDATES, VERTICES = 100, 10

#: name, the offset that CMS subtracts, and the factor it multiplies by; the result is clipped to +-LIMIT
CANDIDATE_FEATURES = (
    ("pt_log", 0.8, 0.7), ("e_log", 1.2, 0.6), ("etarel", 0.0, 1.0), ("phirel", 0.0, 1.0), ("abseta", 0.8, 1.2),
    ("charge", 0.0, 1.0), ("VTX_ass", 4.0, 0.3), ("lostInnerHits", 0.0, 1.0), ("normchi2", 5.0, 0.2), ("quality", 0.0, 0.2),
    ("dz", 0.0, 150.0), ("dzsig", 0.0, 0.7), ("dxy", 0.0, 270.0), ("dxysig", 1.1, 1.0), ("btagEtaRel", 2.1, 0.5),
    ("btagPtRatio", 0.0, 1.0), ("btagPParRatio", 0.0, 1.0), ("btagSip3dVal", 0.0, 90.0), ("btagSip3dSig", 0.0, 0.5),
    ("btagJetDistVal", 0.0, 50.0),
)  # fmt: skip
VERTEX_FEATURES = (
    ("pt_log", 2.8, 0.8), ("mass", 1.1, 0.6), ("etarel", 0.0, 1.0), ("phirel", 0.0, 1.0), ("abseta", 0.8, 1.2),
    ("ntracks", 3.0, 0.5), ("normchi2", 0.7, 0.7), ("dxy", 0.2, 0.6), ("dxysig", 5.0, 0.03), ("d3d", 0.35, 0.4),
    ("d3dsig", 5.0, 0.03),
)  # fmt: skip
LIMIT = 5.0

#: by label: mean number of secondary vertices, their mass (GeV) and flight length (cm), width of the jet, relative multiplicity
_KINDS = {
    "b": (1.0, 3.0, 0.6, 0.09, 1.0), "bb": (2.0, 3.0, 0.6, 0.14, 1.3), "c": (0.7, 1.4, 0.3, 0.08, 0.9),
    "cc": (1.4, 1.4, 0.3, 0.13, 1.2), "uds": (0.05, 0.6, 0.1, 0.07, 0.8), "g": (0.1, 0.6, 0.1, 0.12, 1.2),
    "undef": (0.3, 1.0, 0.2, 0.12, 1.0), "pu": (0.02, 0.5, 0.1, 0.22, 0.7),
}  # fmt: skip


@dataclass(frozen=True)
class Jets:
    """Generated jets, all float32, 0 in empty places. Every field but `label` is an input of the network.

    Attributes:
        pf_points: (n, 2, candidates).
        pf_features: (n, 20, candidates).
        pf_mask: (n, 1, candidates).
        sv_points: (n, 2, vertices).
        sv_features: (n, 11, vertices).
        sv_mask: (n, 1, vertices).
        label: (n,), indices into LABELS.
    """

    pf_points: Array
    pf_features: Array
    pf_mask: Array
    sv_points: Array
    sv_features: Array
    sv_mask: Array
    label: Array

    def inputs(self, first: int = 0, count: int | None = None) -> dict[str, Array]:
        """Return the network's inputs by name for `count` jets from index `first` on (None: all that follow)."""
        stop = None if count is None else first + count
        return {name: values[first:stop] for name, values in vars(self).items() if name != "label"}


def inputs_of(count: int, seed: int) -> dict[str, Array]:
    """Return the network's inputs, by name, of one request of `count` jets."""
    return generate(count, seed).inputs()


def generate(count: int, seed: int, candidates: int = CANDIDATES, vertices: int = VERTICES) -> Jets:
    """Generate `count` jets, in a millisecond each; the labels take turns."""
    pf = _room(count, len(CANDIDATE_FEATURES), candidates)
    sv = _room(count, len(VERTEX_FEATURES), vertices)
    label = np.arange(count) % len(LABELS)
    for i in range(count):
        rng = np.random.default_rng([4, seed, i])
        for room, particles in zip((pf, sv), _jet(rng, LABELS[label[i]]), strict=True):
            _put(room, i, particles)
    return Jets(*pf, *sv, label.astype(np.float32))


def _room(count: int, features: int, places: int) -> tuple[Array, Array, Array]:
    """Return empty arrays for points, features and mask."""
    points, values, mask = (np.zeros((count, size, places), np.float32) for size in (2, features, 1))
    return points, values, mask


def _put(room: tuple[Array, Array, Array], jet: int, found: Float) -> None:
    """Fill in one jet.

    Args:
        found: (features, k), hardest first; rows 2 and 3, etarel and phirel, are the points.
    """
    points, values, mask = room
    kept = found[:, : mask.shape[2]]
    points[jet, :, : kept.shape[1]] = kept[2:4]
    values[jet, :, : kept.shape[1]] = kept
    mask[jet, :, : kept.shape[1]] = 1.0


def _jet(rng: np.random.Generator, label: str) -> tuple[Float, Float]:
    """Return the normalised candidates (20, k) and vertices (11, v) of one jet."""
    vertices, mass, flight, width, multiplicity = _KINDS[label]
    pt = 15.0 * np.exp(rng.uniform(0.3, 1.2 if label == "pu" else 3.5))
    abseta = rng.uniform(0.0, 2.4)
    many = rng.poisson(vertices) if vertices < 1.0 else 1 + rng.poisson(vertices - 1.0)
    decays = _vertices(rng, int(many), (pt, abseta, width), (mass, flight))
    count = 3 + rng.poisson(multiplicity * (6.0 + 4.0 * np.log(pt / 15.0)))
    tracks = _candidates(rng, count, (pt, abseta, width), decays, coreless=label == "pu")
    return _normalised(tracks, CANDIDATE_FEATURES), _normalised(decays, VERTEX_FEATURES)


def _vertices(rng: np.random.Generator, count: int, jet: tuple[float, float, float], decay: tuple[float, float]) -> Float:
    """Return raw vertex features (11, count).

    Args:
        decay: mass in GeV, flight length in cm.
    """
    (pt, abseta, width), (mass, flight) = jet, decay
    share = np.sort(rng.beta(4.0, 6.0, count))[::-1]
    length = rng.exponential(flight, count) + 0.01
    error = rng.uniform(0.005, 0.03, count)
    across = length * rng.uniform(0.5, 1.0, count)
    return np.stack([
        np.log(1.0 + share * pt), rng.normal(mass, 0.3 * mass, count), *rng.normal(0.0, 0.4 * width, (2, count)),
        np.full(count, abseta), 2.0 + rng.poisson(mass, count), rng.gamma(2.0, 0.5, count), across, across / error, length,
        length / error,
    ])  # fmt: skip


def _candidates(
    rng: np.random.Generator, count: int, jet: tuple[float, float, float], decays: Float, *, coreless: bool
) -> Float:
    """Return raw candidate features (20, count), largest pt first; some tracks are displaced like a vertex of `decays`."""
    pt, abseta, width = jet
    part = np.sort(rng.dirichlet(np.full(count, 3.0 if coreless else 0.7)))[::-1]
    charge = rng.choice([-1.0, 0.0, 1.0], count)
    away = rng.normal(0.0, width, (2, count)) * np.clip(0.3 / np.sqrt(part * count), 0.3, 2.0)
    decays_of = rng.integers(0, 4 * max(1, decays.shape[1]), count)
    displaced = (decays_of < decays.shape[1]) & (charge != 0.0)
    flown = np.where(displaced, np.append(decays[7], 0.0)[np.minimum(decays_of, decays.shape[1])], 0.0)
    dxy = np.where(charge != 0.0, rng.normal(0.0, 0.003, count) + 0.15 * flown, 0.0)
    dz = np.where(charge != 0.0, rng.normal(0.0, 2.0 if coreless else 0.006, count) + 0.2 * flown, 0.0)
    error = rng.uniform(0.002, 0.01, count)
    apart = np.hypot(*away)
    impact = np.hypot(dxy, dz)
    return np.stack([
        np.log(part * pt + 1e-3), np.log(part * pt * np.cosh(abseta) + 1e-3), *away, np.abs(abseta + away[0]), charge,
        np.where(coreless, 2.0, 7.0) - 3.0 * (charge == 0.0), -(rng.random(count) < 0.9).astype(float),
        rng.gamma(3.0, 0.5, count), 5.0 * (charge != 0.0), dz, dz / error, dxy, dxy / error,
        2.0 + rng.normal(0.0, 0.7, count) - 3.0 * apart, apart, 1.0 - apart**2, impact, impact / error,
        -rng.exponential(0.01, count),
    ])  # fmt: skip


def _normalised(raw: Float, features: tuple[tuple[str, float, float], ...]) -> Float:
    middle, factor = (np.array([row[i] for row in features])[:, None] for i in (1, 2))
    return np.asarray(np.clip((raw - middle) * factor, -LIMIT, LIMIT))
