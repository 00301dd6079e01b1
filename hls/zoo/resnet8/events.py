# SPDX-License-Identifier: Apache-2.0
"""Toy images of particles in a calorimeter, 32 x 32 pixels in three colours (tracker, ECAL, HCAL), of ten kinds.

An image of one kind is made from a list of particles. A particle leaves a spot in one or more colours: a track, bent in y, an
electromagnetic shower, a hadronic shower. Soft particles from other collisions and noise are added. Pixels are logarithms of
energies, 0 to 255. This is not a detector simulation. Only numpy; the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

SIZE, COLOURS = 32, 3
KINDS = ("electron", "photon", "pi0", "muon", "pion", "neutron", "tau", "quark", "W", "top")
HELD_OUT_SEED = 9_000  # results are quoted on images of this seed and above, which are not trained on
_PHOTON, _ELECTRON, _MUON, _PION, _NEUTRON = range(5)
_CHARGED = np.array([0.0, 1.0, 1.0, 1.0, 0.0])
_PARTICLES = 15  # per image, at most, without the soft ones
_SOFT = 8  # particles of other collisions
_BEND = 60.0  # displacement in y, in pixels, between tracker and calorimeter at 1 GeV
_NOISE_GEV = 0.1  # rms of a pixel
_SCALE = 32.0  # increase of a pixel's value for every doubling of 1 GeV + energy
_WIDTHS = np.array([0.45, 0.75, 1.6])  # of a spot in each colour, pixels
_CHUNK = 500


@dataclass(frozen=True)
class Images:
    """Calorimeter images, with the kind of their particle.

    Attributes:
        pixel: (n, 32, 32, 3) uint8.
        kind: (n,) int64, index into KINDS.
    """

    pixel: NDArray[np.uint8]
    kind: NDArray[np.int64]


@dataclass(frozen=True)
class _Particles:
    """Arrays (n, particles): species; energy in GeV (at first, the share of the image's); position in pixels from the
    centre."""

    species: NDArray[np.int64]
    energy: Float
    x: Float
    y: Float


_Maker = Callable[[np.random.Generator, int], _Particles]


def generate(count: int, seed: int) -> Images:
    """Generate `count` images, whose kinds take turns; a thousand take about a second."""
    kind = np.arange(count, dtype=np.int64) % len(KINDS)
    pixel = np.empty((count, SIZE, SIZE, COLOURS), np.uint8)
    for begin in range(0, count, _CHUNK):
        rng = np.random.default_rng([32, seed, begin // _CHUNK])
        gev = _energies(rng, _joined(_particles(rng, kind[begin : begin + _CHUNK]), _soft(rng, len(pixel[begin:][:_CHUNK]))))
        gev += rng.normal(0.0, _NOISE_GEV, gev.shape)
        pixel[begin : begin + _CHUNK] = np.clip(np.rint(_SCALE * np.log2(1.0 + np.maximum(gev, 0.0))), 0, 255)
    return Images(pixel, kind)


def network_inputs(pixel: NDArray[Any]) -> NDArray[np.float32]:
    """Return the network's inputs, 0 to 255/256, for pixels as on the wire (any shape)."""
    return np.ldexp(pixel.astype(np.float32), -8)


def gate_rows() -> NDArray[np.float32]:
    """Return the pixels (100, 3072) on which a conversion is compared with its network."""
    return generate(100, HELD_OUT_SEED + 500).pixel.reshape(100, -1).astype(np.float32)


# ---- the kinds -----------------------------------------------------------------------------------------------------------


def _particles(rng: np.random.Generator, kind: NDArray[np.int64]) -> _Particles:
    """Return the particles of each image, near the centre, which share an energy of 40 to 300 GeV."""
    n = len(kind)
    fields = np.zeros((4, n, _PARTICLES))
    for number, maker in enumerate(_MAKERS):
        rows = np.flatnonzero(kind == number)
        drawn = maker(rng, len(rows))
        for field, values in zip(fields, (drawn.species, drawn.energy, drawn.x, drawn.y), strict=True):
            field[rows, : values.shape[1]] = values
    species, share, x, y = fields
    energy = share * np.exp(rng.uniform(np.log(40.0), np.log(300.0), (n, 1)))
    centre = rng.uniform(-3.0, 3.0, (2, n, 1))
    return _Particles(species.astype(np.int64), energy, centre[0] + x, centre[1] + y)


def _single(species: int) -> _Maker:
    def make(_: np.random.Generator, n: int) -> _Particles:
        return _Particles(np.full((n, 1), species), np.ones((n, 1)), np.zeros((n, 1)), np.zeros((n, 1)))

    return make


def _electron(rng: np.random.Generator, n: int) -> _Particles:
    """Return an electron and two photons that it has radiated, displaced in y."""
    kept = rng.beta(6.0, 2.0, n)
    first = rng.uniform(0.5, 1.0, n) * (1.0 - kept)
    y = rng.uniform(-4.0, 4.0, (n, 2))
    share = np.stack([kept, first, 1.0 - kept - first], axis=1)
    return _Particles(np.tile([_ELECTRON, _PHOTON, _PHOTON], (n, 1)), share, np.zeros((n, 3)), np.insert(y, 0, 0.0, axis=1))


def _pi0(rng: np.random.Generator, n: int) -> _Particles:
    """Return two photons, two to five pixels apart."""
    share, angle, apart = rng.uniform(0.3, 0.7, n), rng.uniform(0.0, 2 * np.pi, n), rng.uniform(2.0, 5.0, n)
    place = apart[:, None] * np.array([0.5, -0.5])
    x, y = place * np.cos(angle)[:, None], place * np.sin(angle)[:, None]
    return _Particles(np.full((n, 2), _PHOTON), np.stack([share, 1.0 - share], axis=1), x, y)


def _tau(rng: np.random.Generator, n: int) -> _Particles:
    """Return three pions close together and, in half of the images, two photons."""
    share = rng.dirichlet(np.full(5, 4.0), n)
    share[:, 3:] *= rng.integers(0, 2, (n, 1))
    x, y = rng.normal(0.0, 1.2, (2, n, 5))
    return _Particles(np.tile([_PION, _PION, _PION, _PHOTON, _PHOTON], (n, 1)), share, x, y)


def _jet(prongs: int, radius: float) -> _Maker:
    """Return a maker of jets: fifteen particles in `prongs` bundles near the corners of a polygon with that radius in
    pixels."""

    def make(rng: np.random.Generator, n: int) -> _Particles:
        prong = np.arange(_PARTICLES) % prongs
        angle = rng.uniform(0.0, 2 * np.pi, (n, 1)) + 2 * np.pi * prong / prongs
        far = radius * rng.uniform(0.8, 1.3, (n, prongs))[:, prong]
        share = rng.dirichlet(np.full(_PARTICLES, 0.8), n)
        wide = rng.normal(0.0, 2.2 / prongs, (2, n, _PARTICLES)) + rng.normal(0.0, 0.4, (2, n, prongs))[:, :, prong]
        species = rng.choice([_PHOTON, _PION, _NEUTRON], (n, _PARTICLES), p=[0.3, 0.58, 0.12])
        return _Particles(species, share, far * np.cos(angle) + wide[0], far * np.sin(angle) + wide[1])

    return make


_MAKERS: tuple[_Maker, ...] = (
    _electron, _single(_PHOTON), _pi0, _single(_MUON), _single(_PION), _single(_NEUTRON), _tau, _jet(1, 0.0), _jet(2, 3.5),
    _jet(3, 5.0),
)  # fmt: skip


# ---- the detector --------------------------------------------------------------------------------------------------------


def _soft(rng: np.random.Generator, n: int) -> _Particles:
    """Return soft particles from other collisions, anywhere in the image."""
    species = rng.choice([_PHOTON, _PION, _NEUTRON], (n, _SOFT))
    x, y = rng.uniform(-SIZE / 2, SIZE / 2, (2, n, _SOFT))
    return _Particles(species, rng.exponential(2.0, (n, _SOFT)), x, y)


def _joined(one: _Particles, other: _Particles) -> _Particles:
    pairs = ((one.energy, other.energy), (one.x, other.x), (one.y, other.y))
    return _Particles(np.concatenate((one.species, other.species), axis=1), *(np.concatenate(pair, axis=1) for pair in pairs))


def _energies(rng: np.random.Generator, particles: _Particles) -> Float:
    """Return the energy in each pixel (n, 32, 32, 3), GeV; the tracker shows a charged particle's momentum where it enters."""
    species, energy, shape = particles.species, particles.energy, particles.energy.shape
    hadron = (species == _PION) | (species == _NEUTRON)
    early = np.where(hadron, np.where(rng.random(shape) < 0.4, 0.0, rng.beta(1.0, 2.0, shape)), 1.0)
    muon = species == _MUON
    seen = energy * rng.normal(1.0, 0.1, shape)
    minimal = rng.gamma(4.0, 1.0, (2, *shape))  # a muon's deposit does not depend on its energy
    ecal = np.where(muon, 0.1 * minimal[0], early * seen)
    hcal = np.where(muon, 0.6 * minimal[1], (1.0 - early) * seen)
    track = _CHARGED[species] * energy
    charge = rng.choice([-1.0, 1.0], shape)
    bend = _CHARGED[species] * charge * _BEND / np.maximum(energy, 8.0)
    image = np.empty((shape[0], SIZE, SIZE, COLOURS))
    for colour, (amount, y) in enumerate(((track, particles.y), (ecal, particles.y + bend), (hcal, particles.y + bend))):
        across, along = (_profile(place, _WIDTHS[colour]) for place in (particles.x, y))
        image[..., colour] = np.matmul((amount[:, :, None] * across).transpose(0, 2, 1), along)
    return image


def _profile(place: Float, width: float) -> Float:
    """Return the fraction of a spot in each pixel along one axis (n, particles, 32).

    Args:
        place: (n, particles), from the centre.
    """
    z = (np.arange(SIZE) - (SIZE - 1) / 2 - place[..., None]) / width
    return np.asarray(np.exp(-0.5 * z * z) / (width * np.sqrt(2 * np.pi)))
