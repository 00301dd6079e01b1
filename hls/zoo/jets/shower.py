# SPDX-License-Identifier: Apache-2.0
"""A toy of hadronic jets at 1 TeV: one, two or three prongs that radiate, fragment and are measured.

It is not a physics generator. These parts are realistic: the masses, their two- and three-body decays, and emissions at the
leading-order rate (2 alpha_s C / pi) dtheta/theta dz/z with angular ordering and the colour factors of quarks and gluons. These
are crude: the fixed coupling, the fragmentation of a parton into a few pieces, uniform soft radiation, and a Gaussian detector.
Only numpy; the same seed gives the same jets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]

CLASSES = ("gluon", "light quark", "W", "Z", "top")
RADIUS = 0.8
CONSTITUENTS = 64  # per jet; only the hardest are kept

_MASS_GEV = {"W": (80.38, 2.09), "Z": (91.19, 2.50), "top": (172.6, 1.4)}  # mass and width
_BOTTOM_GEV = 4.8
_GLUON, _QUARK = 3.0, 4.0 / 3.0  # colour factors
_ALPHA_S = 0.14
_CUT_GEV = 1.0  # emissions with less transverse momentum are left to fragmentation
_GENERATIONS = 60  # of the shower, far more than any parton needs
_HADRON_KICK_GEV = 0.35
_SOFT_PARTICLES, _SOFT_GEV = 8.0, 1.2  # of the underlying event, per jet
_THRESHOLD_GEV = 0.7


@dataclass(frozen=True)
class Particles:
    """Constituents of n jets, hardest first.

    Attributes:
        pt: (n, CONSTITUENTS) in GeV, 0 in empty places.
        eta, phi: (n, CONSTITUENTS), relative to the jet's axis.
        label: (n,) int64, index into CLASSES.
    """

    pt: Float
    eta: Float
    phi: Float
    label: Int


@dataclass(frozen=True)
class _Partons:
    """A flat list of partons.

    Attributes:
        jet: index of the jet.
        angle: largest angle of a further emission.
        colour: colour factor.
    """

    jet: Int
    pt: Float
    eta: Float
    phi: Float
    angle: Float
    colour: Float

    def __getitem__(self, which: NDArray[np.bool_]) -> _Partons:
        return _Partons(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def _joined(parts: list[_Partons]) -> _Partons:
    names = _Partons.__dataclass_fields__
    return _Partons(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def generate(count: int, seed: int) -> Particles:
    """Generate `count` jets, whose classes take turns. 10 000 take about a second."""
    rng = np.random.default_rng([16, seed])
    label = np.arange(count, dtype=np.int64) % len(CLASSES)
    partons = _shower(rng, _hard(rng, label))
    return _measured(rng, _fragmented(rng, partons), label)


# ---- the hard process ----------------------------------------------------------------------------------------------------


def _hard(rng: np.random.Generator, label: Int) -> _Partons:
    """Return the partons of each jet: one for gluons and light quarks, two for W and Z, three for tops."""
    pt = np.clip(rng.normal(1000.0, 80.0, len(label)), 700.0, 1300.0)
    parts = []
    for index, name in enumerate(CLASSES):
        jet = np.flatnonzero(label == index)
        if name in _MASS_GEV:
            parts += _decay(rng, jet, pt[jet], name)
        else:
            zero = np.zeros(len(jet))
            colour = np.full(len(jet), _GLUON if name == "gluon" else _QUARK)
            parts.append(_Partons(jet, pt[jet], zero, zero, np.full(len(jet), RADIUS), colour))
    return _joined(parts)


def _decay(rng: np.random.Generator, jet: Int, pt: Float, name: str) -> list[_Partons]:
    """Return the decay products of W, Z -> q q and t -> b (W -> q q), isotropic in each rest frame."""
    mass = _breit_wigner(rng, name, len(jet))
    momentum = np.stack([np.sqrt(pt**2 + mass**2), pt, 0.0 * pt, 0.0 * pt], axis=1)
    if name != "top":
        pair = _two_body(rng, momentum, mass, 0.0 * mass, 0.0 * mass)
        return [_parton(jet, quark, _opening(*pair)) for quark in pair]
    boson = _breit_wigner(rng, "W", len(jet))
    bottom, w = _two_body(rng, momentum, mass, np.full(len(jet), _BOTTOM_GEV), boson)
    pair = _two_body(rng, w, boson, 0.0 * mass, 0.0 * mass)
    return [_parton(jet, bottom, _opening(bottom, w)), *(_parton(jet, quark, _opening(*pair)) for quark in pair)]


def _breit_wigner(rng: np.random.Generator, name: str, count: int) -> Float:
    mass, width = _MASS_GEV[name]
    return mass + width / 2.0 * np.clip(rng.standard_cauchy(count), -8.0, 8.0)


def _two_body(rng: np.random.Generator, parent: Float, mass: Float, first: Float, second: Float) -> tuple[Float, Float]:
    """Return the four-momenta (n, 4), as E, px, py, pz, of two daughters with masses `first` and `second`.

    The decay is isotropic in the rest frame of `parent` (n, 4), whose mass is `mass` (n,).
    """
    energy = (mass**2 + first**2 - second**2) / (2.0 * mass)
    momentum = np.sqrt(np.maximum(energy**2 - first**2, 0.0))
    cosine, azimuth = rng.uniform(-1.0, 1.0, len(mass)), rng.uniform(0.0, 2.0 * np.pi, len(mass))
    sine = np.sqrt(1.0 - cosine**2)
    direction = np.stack([sine * np.cos(azimuth), sine * np.sin(azimuth), cosine], axis=1)
    daughter = _boosted(np.column_stack([energy, momentum[:, None] * direction]), parent, mass)
    return daughter, parent - daughter


def _boosted(momentum: Float, parent: Float, mass: Float) -> Float:
    """Boost four-momenta (n, 4) from the rest frame of `parent` (n, 4) to the frame in which it has that momentum."""
    along = (momentum[:, 1:] * parent[:, 1:]).sum(axis=1)
    energy = (momentum[:, 0] * parent[:, 0] + along) / mass
    space = momentum[:, 1:] + parent[:, 1:] * ((momentum[:, 0] + energy) / (parent[:, 0] + mass))[:, None]
    return np.column_stack([energy, space])


def _parton(jet: Int, momentum: Float, angle: Float) -> _Partons:
    pt = np.hypot(momentum[:, 1], momentum[:, 2])
    eta, phi = np.arcsinh(momentum[:, 3] / pt), np.arctan2(momentum[:, 2], momentum[:, 1])
    return _Partons(jet, pt, eta, phi, np.minimum(angle, RADIUS), np.full(len(pt), _QUARK))


def _opening(first: Float, second: Float) -> Float:
    one, other = (p[:, 1:] / np.linalg.norm(p[:, 1:], axis=1)[:, None] for p in (first, second))
    return np.asarray(np.arccos(np.clip((one * other).sum(axis=1), -1.0, 1.0)))


# ---- radiation -----------------------------------------------------------------------------------------------------------


def _shower(rng: np.random.Generator, partons: _Partons) -> _Partons:
    """Let every parton, emitted gluons included, emit gluons at ever smaller angles until none is above the cut."""
    done = []
    for _ in range(_GENERATIONS):
        partons, ended = _emission(rng, partons)
        done.append(ended)
        if not len(partons.pt):
            break
    return _joined([*done, partons])


def _emission(rng: np.random.Generator, parton: _Partons) -> tuple[_Partons, _Partons]:
    """Generate the next emission of each parton; return (partons that may emit again, emitted ones included; finished ones).

    The rate at the largest angle is an upper bound for smaller angles (veto algorithm): an emission beyond the true rate is
    rejected, and the parton tries again.
    """
    reach = np.log(np.maximum(parton.pt * parton.angle / _CUT_GEV, 1.0))  # range of ln(1/z)
    rate = 2.0 * _ALPHA_S * parton.colour / np.pi * reach
    angle = parton.angle * rng.random(len(rate)) ** (1.0 / np.maximum(rate, 1e-9))
    z = 0.5 * np.exp(-reach * rng.random(len(rate)))
    alive = parton.pt * angle > _CUT_GEV
    emits = alive & (z * parton.pt * angle > _CUT_GEV)
    mother, side = parton[emits], rng.uniform(0.0, 2.0 * np.pi, int(emits.sum()))
    mother, gluon = _split(mother, angle[emits], z[emits], side)
    vetoed = parton[alive & ~emits]
    waiting = _Partons(vetoed.jet, vetoed.pt, vetoed.eta, vetoed.phi, angle[alive & ~emits], vetoed.colour)
    return _joined([mother, gluon, waiting]), parton[~alive]


def _split(mother: _Partons, angle: Float, z: Float, side: Float) -> tuple[_Partons, _Partons]:
    """Return the mother with 1-z of its momentum and a gluon with z, `angle` apart; their total direction is unchanged."""
    eta, phi = angle * np.cos(side), angle * np.sin(side)
    keep, give = 1.0 - z, z
    first = _Partons(mother.jet, keep * mother.pt, mother.eta - give * eta, mother.phi - give * phi, angle, mother.colour)
    gluon = np.full(len(z), _GLUON)
    return first, _Partons(mother.jet, give * mother.pt, mother.eta + keep * eta, mother.phi + keep * phi, angle, gluon)


# ---- hadrons and detector ------------------------------------------------------------------------------------------------


def _fragmented(rng: np.random.Generator, parton: _Partons) -> _Partons:
    """Split each parton into 1 + Poisson(1 + 0.55 ln pt) pieces, more for gluons, with transverse kicks of 0.35 GeV."""
    mean = (1.0 + 0.55 * np.log(np.maximum(parton.pt, 1.0))) * np.where(parton.colour == _GLUON, 1.25, 1.0)
    pieces = 1 + rng.poisson(mean)
    owner = np.repeat(np.arange(len(pieces)), pieces)
    share = rng.gamma(0.8, 1.0, len(owner))
    share /= np.bincount(owner, share)[owner]
    pt = share * parton.pt[owner]
    kick = _HADRON_KICK_GEV * rng.normal(size=(2, len(owner))) / np.maximum(pt, 0.5)
    return _Partons(parton.jet[owner], pt, parton.eta[owner] + kick[0], parton.phi[owner] + kick[1], 0.0 * pt, 0.0 * pt)


def _soft(rng: np.random.Generator, jets: int) -> _Partons:
    count = rng.poisson(_SOFT_PARTICLES, jets)
    jet = np.repeat(np.arange(jets), count)
    radius, side = RADIUS * np.sqrt(rng.random(len(jet))), rng.uniform(0.0, 2.0 * np.pi, len(jet))
    zero = np.zeros(len(jet))
    return _Partons(jet, rng.exponential(_SOFT_GEV, len(jet)), radius * np.cos(side), radius * np.sin(side), zero, zero)


def _measured(rng: np.random.Generator, hadron: _Partons, label: Int) -> Particles:
    """Smear pt by 21 %/sqrt(pt) and 1.05 %, angles by 5 mrad; keep particles above threshold and within the radius."""
    particles = _joined([hadron, _soft(rng, len(label))])
    spread = np.hypot(0.21 / np.sqrt(np.maximum(particles.pt, 0.1)), 0.0105)
    pt = particles.pt * np.maximum(1.0 + spread * rng.normal(size=len(spread)), 0.0)
    eta, phi = (place + 0.005 * rng.normal(size=len(place)) for place in (particles.eta, particles.phi))
    seen = (pt > _THRESHOLD_GEV) & (np.hypot(eta, phi) < RADIUS)
    jet = particles.jet[seen]
    pt, eta, phi = (values[seen] for values in (pt, eta, phi))
    order = np.lexsort([-pt, jet])
    begin = np.searchsorted(jet[order], np.arange(len(label)))
    rank = np.arange(len(order)) - begin[jet[order]]
    kept, rank = order[rank < CONSTITUENTS], rank[rank < CONSTITUENTS]
    table = np.zeros((3, len(label), CONSTITUENTS))
    table[:, jet[kept], rank] = pt[kept], eta[kept], phi[kept]
    return Particles(table[0], table[1], table[2], label)
