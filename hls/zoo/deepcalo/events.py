# SPDX-License-Identifier: Apache-2.0
"""Toy electrons and photons in a four-layer barrel calorimeter, in the shapes of DeepCalo's inputs. Not a detector simulation.

An image has 56 x 11 pixels (eta, phi) in four layers: presampler, strips, middle, back. A pixel is as fine as a strip in eta
and as a middle cell in phi. The energy of a coarser cell is spread evenly over its pixels, as in DeepCalo's images. A shower's
depth follows the gamma profile, its width has a core and a halo; cells have sampling fluctuations and noise. Only numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

ETA, PHI, LAYERS = 56, 11, 4
TRACKS, TRACK_FEATURES = 57, 6
SCALARS = (
    *("abs_eta", "eta_in_cell", "phi_in_cell", "fraction_presampler", "fraction_strips", "fraction_middle", "fraction_back"),
    *("energy_gev", "r_eta", "r_phi", "width_strips", "shower_depth", "vertices", "interactions", "tracks"),
)
_PIXEL_ETA, _PIXEL_PHI = 0.0031, 0.0245
#: pixels per cell in (eta, phi)
_CELLS = ((8, 4), (1, 4), (8, 1), (16, 1))
_BORDERS_X0 = (0.0, 1.8, 6.0, 24.0, 27.0)  # borders of the layers in radiation lengths, at eta 0
_NOISE_GEV = (0.012, 0.010, 0.030, 0.020)  # rms per cell, by layer
_SAMPLING = 0.10  # sampling fluctuation, times sqrt(energy in GeV)
_MOLIERE = (0.010, 0.035)  # half widths of core and halo, in eta and phi, at the middle layer


@dataclass(frozen=True)
class Candidates:
    """Electron and photon candidates, all arrays float32.

    Attributes:
        em_barrel: (n, 56, 11, 4) in GeV.
        scalars: (n, 15) in the order of SCALARS.
        energy: (n,), the truth in GeV.
        tracks: (n, 57, 6): pt in GeV, deta, dphi, d0 and z0 in mm, charge; unused places are 0.
    """

    em_barrel: NDArray[np.float32]
    scalars: NDArray[np.float32]
    tracks: NDArray[np.float32]
    energy: NDArray[np.float32]


def generate(count: int, seed: int, *, low_gev: float = 5.0, high_gev: float = 200.0) -> Candidates:
    """Generate `count` candidates with energies flat in log(E), half of them electrons. A thousand take half a second."""
    rng = np.random.default_rng([56, seed])
    energy = low_gev * (high_gev / low_gev) ** rng.random(count)
    eta = rng.uniform(0.0, 1.3, count)
    place = rng.uniform(-0.5, 0.5, (count, 2)) * (8 * _PIXEL_ETA, _PIXEL_PHI)  # in the middle layer's central cell
    share, depth = _layer_shares(rng, energy, eta)
    image = np.stack([_layer(rng, layer, energy * share[:, layer], place) for layer in range(LAYERS)], axis=3)
    tracks, pile_up = _tracks(rng, energy, eta)
    scalars = _scalars(image, eta, place, depth, tracks, pile_up)
    return Candidates(*(values.astype(np.float32) for values in (image, scalars, tracks, energy)))


def _layer_shares(rng: np.random.Generator, energy: Float, eta: Float) -> tuple[Float, Float]:
    """Return each layer's share of the energy (n, 4), in total below 1, and the depth of the maximum (n,) in radiation lengths.

    The profile is dE/dt ~ t^(a-1) exp(-b t) with b = 0.5 and its maximum at ln(E / 7.4 MeV) - 0.5 (electrons in lead).
    """
    maximum = np.log(energy / 0.0074) - 0.5 + rng.normal(0.0, 0.6, len(energy)) + rng.exponential(0.5, len(energy))
    b = 0.5
    a = 1.0 + b * np.maximum(maximum, 1.0)
    t = (np.arange(140) + 0.5) * 0.25
    profile = np.exp((a[:, None] - 1.0) * np.log(t) - b * t)
    profile /= profile.sum(axis=1, keepdims=True)
    slant = np.cosh(eta)[:, None]  # the path through the same lead is longer at an angle
    upstream = rng.gamma(4.0, 0.4, len(energy))[:, None]  # energy deposited in tracker and magnet is lost
    passed = np.concatenate([np.zeros((len(eta), 1)), np.cumsum(profile, axis=1)], axis=1)
    place = (np.asarray(_BORDERS_X0) + upstream) * slant / 0.25
    whole = np.minimum(place.astype(np.int64), 139)
    row = np.arange(len(eta))[:, None]
    at = passed[row, whole] + (np.minimum(place, 140.0) - whole) * (passed[row, whole + 1] - passed[row, whole])
    return np.diff(at, axis=1), maximum


def _layer(rng: np.random.Generator, layer: int, energy: Float, place: Float) -> Float:
    """Return one layer's image (n, 56, 11) in GeV: cells with fluctuations and noise, spread over pixels."""
    eta_pixels, phi_pixels = _CELLS[layer]
    edges_eta = _edges(ETA, eta_pixels) * _PIXEL_ETA
    edges_phi = _edges(PHI, phi_pixels) * _PIXEL_PHI
    halo = rng.uniform(0.10, 0.25, len(energy))
    growth = (0.5, 0.7, 1.0, 1.3)[layer]
    cells = np.zeros((len(energy), len(edges_eta) - 1, len(edges_phi) - 1))
    for width, weight in zip(_MOLIERE, (1.0 - halo, halo), strict=True):
        along = _collected(edges_eta, place[:, 0], width * growth / 2.0)
        across = _collected(edges_phi, place[:, 1], width * growth / 2.0)
        cells += (weight * energy)[:, None, None] * along[:, :, None] * across[:, None, :]
    spread = np.hypot(_SAMPLING * np.sqrt(np.maximum(cells, 0.0)), _NOISE_GEV[layer])
    cells = cells + spread * rng.normal(size=cells.shape)
    pixels = np.repeat(np.repeat(cells, eta_pixels, axis=1), phi_pixels, axis=2) / (eta_pixels * phi_pixels)
    return pixels[:, :ETA, :PHI]


def _edges(pixels: int, per_cell: int) -> Float:
    """Return the cell borders in pixels from the centre; the last cell may extend beyond the image."""
    cells = -(-pixels // per_cell)
    return np.asarray(np.arange(cells + 1) * per_cell - pixels / 2.0, np.float64)


def _collected(edges: Float, centre: Float, width: float) -> Float:
    """Return the fraction (n, cells) of a logistic profile between neighbouring edges."""
    at = 0.5 + 0.5 * np.tanh((edges[None, :] - centre[:, None]) / (2.0 * width))
    return np.diff(at, axis=1)


def _tracks(rng: np.random.Generator, energy: Float, eta: Float) -> tuple[Float, Float]:
    """Return the tracks (n, 57, 6), an electron's own track first, and the mean number of interactions (n,)."""
    count = len(energy)
    pile_up = rng.uniform(20.0, 60.0, count)
    electron = np.arange(count) % 2 == 0
    number = np.minimum(rng.poisson(0.15 * pile_up) + electron, TRACKS)
    table = np.zeros((count, TRACKS, TRACK_FEATURES))
    table[:, :, 0] = 0.5 + rng.exponential(1.0, (count, TRACKS))
    table[:, :, 1:3] = rng.uniform(-0.2, 0.2, (count, TRACKS, 2))
    table[:, :, 3] = rng.normal(0.0, 0.1, (count, TRACKS))
    table[:, :, 4] = rng.normal(0.0, 40.0, (count, TRACKS))
    table[:, :, 5] = rng.choice([-1.0, 1.0], (count, TRACKS))
    lost = rng.beta(0.6, 4.0, count)  # lost to bremsstrahlung before the measurement
    table[electron, 0, 0] = (energy / np.cosh(eta) * (1.0 - lost) * rng.normal(1.0, 0.02, count))[electron]
    table[electron, 0, 1:3] = rng.normal(0.0, 0.003, (int(electron.sum()), 2))
    table[electron, 0, 4] = rng.normal(0.0, 0.1, int(electron.sum()))
    return np.where(np.arange(TRACKS)[None, :, None] < number[:, None, None], table, 0.0), pile_up


def _scalars(image: Float, eta: Float, place: Float, depth: Float, tracks: Float, pile_up: Float) -> Float:
    """Return the scalars (n, 15) in the order of SCALARS."""
    layers = image.sum(axis=(1, 2))
    total = np.maximum(layers.sum(axis=1), 0.1)
    middle = image[:, :, :, 2]
    core = np.maximum(middle[:, 16:40, 4:7].sum(axis=(1, 2)), 0.01)  # 3 x 3 cells
    strips = np.maximum(image[:, :, :, 1].sum(axis=2), 0.0)
    position = np.arange(ETA) - (ETA - 1) / 2.0
    weight = np.maximum(strips.sum(axis=1), 0.01)
    mean = (strips @ position) / weight
    variance = (strips * (position[None, :] - mean[:, None]) ** 2).sum(axis=1) / weight
    vertices = np.rint(pile_up * 0.55)
    return np.column_stack(
        [
            *(eta, place[:, 0] / _PIXEL_ETA / 8.0, place[:, 1] / _PIXEL_PHI),
            *(layers / total[:, None]).T,
            total,
            core / np.maximum(middle[:, :, 4:7].sum(axis=(1, 2)), 0.01),
            core / np.maximum(middle[:, 16:40, :].sum(axis=(1, 2)), 0.01),
            np.sqrt(variance),
            depth,
            vertices,
            pile_up,
            (tracks[:, :, 0] > 0.0).sum(axis=1),
        ]
    )


def gate_rows() -> NDArray[np.float32]:
    """Return the images (12, 2464), flattened as on the wire, on which a conversion is compared with its network."""
    return generate(12, 9001).em_barrel.reshape(12, -1)


def film_gate_rows() -> list[NDArray[np.float32]]:
    """Return the same for deepcalo_film: scalars (12, 15), tracks (12, 342) and images (12, 2464)."""
    generated = generate(12, 9001)
    return [x.reshape(12, -1) for x in (generated.scalars, generated.tracks, generated.em_barrel)]
