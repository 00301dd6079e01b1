# SPDX-License-Identifier: Apache-2.0
"""Toy events as the level-1 trigger sees them: missing momentum, 4 electrons, 4 muons, 10 jets, with pt, eta and phi each.

The layout is that of the data set of arXiv:2107.02157; the events are not. Ordinary events are multijets, W and Z bosons and
top pairs. The signals are a resonance that decays to four leptons, a pair of leptoquarks, and a heavy charged scalar that
decays to a tau and a neutrino. Transverse momenta follow steep spectra and balance up to the detector's resolution.
Only numpy; the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding

Float = NDArray[np.float64]

HELD_OUT_SEED = 9_000  # results are quoted on events of this seed and above, which are not trained on
ELECTRONS, MUONS, JETS = 4, 4, 10
OBJECTS = 1 + ELECTRONS + MUONS + JETS
INPUTS = 3 * OBJECTS
ORDINARY = "ordinary"
SIGNALS = ("four leptons", "leptoquarks", "tau and neutrino")
KINDS = (ORDINARY, *SIGNALS)

#: type in the fabric of the inputs: pt in units of 64 GeV up to 512 GeV, eta and phi up to +-8, in steps of 2**-8
INPUT = FixedPoint(12, 4, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)
#: network input = number on the wire * 2**exponent
INPUT_EXPONENTS = (-6, 0, 0) * OBJECTS

_THRESHOLD_GEV = {"electron": 3.0, "muon": 3.0, "jet": 15.0}
_PLACES = {"electron": (1, ELECTRONS), "muon": (1 + ELECTRONS, MUONS), "jet": (1 + ELECTRONS + MUONS, JETS)}


@dataclass(frozen=True)
class Events:
    """Collision events of several kinds.

    Attributes:
        rows: (n, 57) float32, pt in GeV, eta and phi of each object, zero for absent ones.
        kind: (n,), index into KINDS.
    """

    rows: NDArray[np.float32]
    kind: NDArray[np.int64]


def ordinary(count: int, seed: int) -> Events:
    """Generate `count` ordinary events, on which the network is trained."""
    return _generate(np.zeros(count, np.int64), seed)


def mixture(count: int, seed: int) -> Events:
    """Generate `count` events: every second one is ordinary, the others are signals that take turns."""
    index = np.arange(count, dtype=np.int64)
    return _generate(np.where(index % 2 == 0, 0, 1 + index // 2 % len(SIGNALS)), seed)


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (2000, 57) on which a conversion is compared with its network."""
    return mixture(2000, HELD_OUT_SEED + 500).rows


def network_inputs(rows: ArrayLike) -> NDArray[np.float32]:
    """Return the network inputs (n, 57) for rows (n, 57) in wire units: shifted and rounded to the fabric's input type."""
    shifted = np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS))
    return INPUT.to_float(INPUT.from_float(shifted)).astype(np.float32)


def _generate(kind: NDArray[np.int64], seed: int) -> Events:
    rows = np.zeros((len(kind), OBJECTS, 3), np.float64)
    for i, which in enumerate(kind):
        rng = np.random.default_rng([57, seed, i])
        name = _ordinary_kind(rng) if which == 0 else KINDS[which]
        objects = _HARD[name](rng)
        objects += [("jet", _kick(rng, 12.0)) for _ in range(rng.poisson(1.0))]
        _measured(rng, objects, rows[i])
    return Events(rows.reshape(len(kind), -1).astype(np.float32), kind)


# ---- processes: lists of (what, px and py in GeV); a neutrino is not seen -------------------------------------------------

Objects = list[tuple[str, Float]]


def _ordinary_kind(rng: np.random.Generator) -> str:
    return str(rng.choice(["multijet", "W", "Z", "top pair"], p=[0.55, 0.28, 0.09, 0.08]))


def _kick(rng: np.random.Generator, mean: float) -> Float:
    """A momentum in a random direction whose size has this mean, in GeV."""
    phi = rng.uniform(0.0, 2.0 * np.pi)
    return np.asarray(rng.exponential(mean) * np.array([np.cos(phi), np.sin(phi)]))


def _decay(rng: np.random.Generator, parent: Float, mass: float) -> tuple[Float, Float]:
    """The momenta of two light daughters of a particle of this mass, in GeV, isotropic in the transverse plane."""
    phi, sine = rng.uniform(0.0, 2.0 * np.pi), np.sqrt(1.0 - rng.uniform(-1.0, 1.0) ** 2)
    half = 0.5 * mass * sine * np.array([np.cos(phi), np.sin(phi)])
    return np.asarray(parent / 2.0 + half), np.asarray(parent / 2.0 - half)


def _lepton(rng: np.random.Generator) -> str:
    return str(rng.choice(["electron", "muon"]))


def _multijet(rng: np.random.Generator) -> Objects:
    pt = 25.0 * rng.random() ** (-1.0 / 4.0)  # a spectrum of pt**-5
    phi = rng.uniform(0.0, 2.0 * np.pi)
    first = pt * np.array([np.cos(phi), np.sin(phi)])
    extra = [_kick(rng, 0.25 * pt) for _ in range(rng.poisson(1.2))]
    return [("jet", first), *(("jet", momentum) for momentum in extra), ("jet", -first - sum(extra, np.zeros(2)))]


def _w(rng: np.random.Generator, parent: Float | None = None) -> Objects:
    recoil = _kick(rng, 15.0) if parent is None else -parent
    first, second = _decay(rng, -recoil, 80.4)
    daughters: Objects = [(_lepton(rng), first), ("neutrino", second)]
    if parent is not None and rng.random() < 0.6:
        daughters = [("jet", first), ("jet", second)]
    return [*daughters, ("jet", recoil)] if parent is None else daughters


def _z(rng: np.random.Generator) -> Objects:
    recoil, lepton = _kick(rng, 15.0), _lepton(rng)
    return [*((lepton, momentum) for momentum in _decay(rng, -recoil, 91.2)), ("jet", recoil)]


def _top_pair(rng: np.random.Generator) -> Objects:
    top = _kick(rng, 80.0)
    objects: Objects = []
    for momentum in (top, -top):
        bottom, w = _decay(rng, momentum, 130.0)
        objects += [("jet", bottom), *_w(rng, w)]
    return objects


def _four_leptons(rng: np.random.Generator) -> Objects:
    recoil = _kick(rng, 15.0)
    pair, lepton = _decay(rng, -recoil, 50.0), _lepton(rng)
    return [("jet", recoil), *((lepton, momentum) for z in pair for momentum in _decay(rng, z, 20.0))]


def _leptoquarks(rng: np.random.Generator) -> Objects:
    one = _kick(rng, 60.0)
    pairs = (_decay(rng, one, 80.0), _decay(rng, -one, 80.0))
    return [entry for bottom, tau in pairs for entry in (("jet", bottom), ("jet", 0.6 * tau), ("neutrino", 0.4 * tau))]


def _tau_and_neutrino(rng: np.random.Generator) -> Objects:
    recoil = _kick(rng, 20.0)
    tau, neutrino = _decay(rng, -recoil, 350.0)
    return [("jet", recoil), ("jet", 0.6 * tau), ("neutrino", 0.4 * tau), ("neutrino", neutrino)]


_HARD: dict[str, Callable[[np.random.Generator], Objects]] = {
    "multijet": _multijet,
    "W": _w,
    "Z": _z,
    "top pair": _top_pair,
    "four leptons": _four_leptons,
    "leptoquarks": _leptoquarks,
    "tau and neutrino": _tau_and_neutrino,
}


# ---- the detector --------------------------------------------------------------------------------------------------------


def _measured(rng: np.random.Generator, objects: Objects, row: Float) -> None:
    """Write an event's row (19, 3): objects of each kind above threshold, hardest first, with smeared pt, and what is
    missing."""
    seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in _PLACES}
    missing = rng.normal(0.0, 8.0, 2)
    for what, momentum in objects:
        pt, phi = float(np.hypot(*momentum)), float(np.arctan2(momentum[1], momentum[0]))
        if what == "neutrino":
            missing += momentum
            continue
        measured = pt * max(1.0 + rng.normal() * (0.8 / np.sqrt(max(pt, 1.0)) if what == "jet" else 0.03), 0.0)
        missing += momentum * (1.0 - measured / max(pt, 1e-9))
        if measured > _THRESHOLD_GEV[what]:
            seen[what].append((measured, float(rng.normal(0.0, 1.3 if what == "jet" else 1.0)), phi))
    row[0] = np.hypot(*missing), 0.0, np.arctan2(missing[1], missing[0])
    for name, (first, places) in _PLACES.items():
        for place, values in enumerate(sorted(seen[name], reverse=True)[:places]):
            row[first + place] = values
