# SPDX-License-Identifier: Apache-2.0
"""Toy patches of a liquid argon time projection chamber, 48 x 48 pixels (time, wire), with the labels of EmTrkMichelId.

Tracks scatter and ionise with a heavy tail, some with delta rays. Showers are a stem and a cascade along the gamma profile. A
Michel electron starts at the end of a muon whose ionisation rises to its Bragg peak. "none" has only noise and single deposits.
This is not a detector simulation. Only numpy; the same seed gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

SIZE = 48
KINDS = ("track", "em", "none")
_STEPS = 96  # steps of a track, _STEP pixels each
_STEP = 0.8
_CASCADE = 220  # deposits of a shower, at most
_NOISE = 0.11  # rms of a pixel, in units of a minimum ionising step
_SHAPING = (0.08, 0.24, 0.36, 0.24, 0.08)  # response of the electronics to a deposit, along time


@dataclass(frozen=True)
class Patches:
    """Patches and their labels.

    Attributes:
        image: (n, 48, 48, 1) float32, in units of a minimum ionising step.
        kind: (n,) int64, index into KINDS.
        michel: (n,) float32, 1 for a patch with a Michel electron, else 0.
    """

    image: NDArray[np.float32]
    kind: NDArray[np.int64]
    michel: NDArray[np.float32]


@dataclass(frozen=True)
class _Deposits:
    """Charge deposits of all patches as flat arrays of equal length; patch is the index of the patch, time and wire in
    pixels."""

    patch: NDArray[np.int64]
    time: Float
    wire: Float
    charge: Float


def generate(count: int, seed: int, *, chunk: int = 4096) -> Patches:
    """Generate `count` patches; of every twelve, four are tracks, three showers, two Michel electrons and three empty.

    A thousand take about a second.

    Args:
        chunk: patches generated at once; the result depends on it.
    """
    recipe = np.array([0, 1, 2, 0, 3, 1, 0, 2, 1, 0, 3, 2])  # 3: a Michel electron
    which = recipe[np.arange(count) % len(recipe)]
    image = np.empty((count, SIZE, SIZE, 1), np.float32)
    for begin in range(0, count, chunk):
        rng = np.random.default_rng([48, seed, begin // chunk])
        image[begin : begin + chunk, :, :, 0] = _images(rng, which[begin : begin + chunk])
    kind = np.where(which == 3, 1, which).astype(np.int64)
    return Patches(image, kind, (which == 3).astype(np.float32))


def event(patches: int, seed: int, *, bank: int = 4096) -> NDArray[np.float32]:
    """Return an event's patches (n, 48, 48, 1), drawn from a bank of `bank` generated ones and mirrored at random.

    A real event has about 55 000 patches.
    """
    rng = np.random.default_rng([49, seed])
    pool = generate(min(bank, patches), seed).image
    drawn = pool[rng.integers(0, len(pool), patches)]
    mirrored = rng.random(patches) < 0.5
    drawn[mirrored] = drawn[mirrored, ::-1]
    return drawn


def gate_rows() -> NDArray[np.float32]:
    """Return the patches (12, 2304), flattened as on the wire, on which a conversion is compared with its network."""
    return generate(12, 9001).image.reshape(12, -1)


# ---- what is in a patch --------------------------------------------------------------------------------------------------


def _images(rng: np.random.Generator, which: NDArray[np.int64]) -> Float:
    tracks, showers, michels = (np.flatnonzero(which == kind) for kind in (0, 1, 3))
    crossing = np.flatnonzero((which != 2) & (rng.random(len(which)) < 0.15))  # by another particle, with less charge
    sources = [
        _track(rng, tracks),
        _delta_rays(rng, tracks),
        _shower(rng, showers),
        _michel(rng, michels),
        _faded(_track(rng, crossing), 0.6),
        _specks(rng, len(which)),
    ]
    parts = [np.concatenate([getattr(deposits, name) for deposits in sources]) for name in ("patch", "time", "wire", "charge")]
    image = _shaped(_binned(len(which), *parts))
    return np.asarray(image + rng.normal(0.0, _NOISE, image.shape))


def _landau(rng: np.random.Generator, shape: tuple[int, ...]) -> Float:
    """Return the ionisation of steps: 1 on average, with a heavy tail (Moyal's distribution, from the square of a normal)."""
    return np.asarray(0.75 - 0.2 * np.log(np.maximum(rng.normal(size=shape) ** 2, 1e-4)) * 0.75)


def _path(rng: np.random.Generator, start: Float, angle: Float, steps: int, scatter: float) -> tuple[Float, Float]:
    """Return positions (n, steps) in time and wire of paths from start (n, 2), whose direction is a random walk."""
    turned = angle[:, None] + np.cumsum(rng.normal(0.0, scatter, (len(angle), steps)), axis=1)
    time = start[:, :1] + _STEP * np.cumsum(np.sin(turned), axis=1)
    wire = start[:, 1:] + _STEP * np.cumsum(np.cos(turned), axis=1)
    return time, wire


def _flat(patch: NDArray[np.int64], time: Float, wire: Float, charge: Float) -> _Deposits:
    keep = charge > 0.0
    return _Deposits(np.broadcast_to(patch[:, None], time.shape)[keep], time[keep], wire[keep], charge[keep])


def _faded(deposits: _Deposits, factor: float) -> _Deposits:
    return _Deposits(deposits.patch, deposits.time, deposits.wire, factor * deposits.charge)


def _track(rng: np.random.Generator, patch: NDArray[np.int64]) -> _Deposits:
    """Return tracks through a point near the centre; one in three ends within the patch."""
    centre = SIZE / 2.0 + rng.normal(0.0, 6.0, (len(patch), 2))
    angle = rng.uniform(0.0, 2.0 * np.pi, len(patch))
    back = rng.uniform(10.0, 38.0, len(patch))[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    time, wire = _path(rng, centre - back, angle, _STEPS, 0.02)
    length = np.where(rng.random(len(patch)) < 1 / 3, rng.integers(18, 60, len(patch)), _STEPS)
    return _flat(patch, time, wire, _landau(rng, time.shape) * (np.arange(_STEPS) < length[:, None]))


def _delta_rays(rng: np.random.Generator, patch: NDArray[np.int64]) -> _Deposits:
    some = patch[rng.random(len(patch)) < 0.4]
    start = SIZE / 2.0 + rng.normal(0.0, 8.0, (len(some), 2))
    time, wire = _path(rng, start, rng.uniform(0.0, 2.0 * np.pi, len(some)), 10, 0.3)
    length = 2 + rng.poisson(2.0, len(some))
    return _flat(some, time, wire, 0.8 * _landau(rng, time.shape) * (np.arange(10) < length[:, None]))


def _shower(rng: np.random.Generator, patch: NDArray[np.int64]) -> _Deposits:
    """Return showers: a stem of one or two electrons, then deposits with gamma-distributed depth that spread with depth."""
    count = len(patch)
    angle = rng.uniform(0.0, 2.0 * np.pi, count)
    direction = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    start = SIZE / 2.0 + rng.normal(0.0, 5.0, (count, 2)) - rng.uniform(4.0, 22.0, count)[:, None] * direction
    stem_time, stem_wire = _path(rng, start, angle, 14, 0.05)
    stem = np.where(rng.random(count) < 0.5, 1.0, 2.0)[:, None] * _landau(rng, stem_time.shape)
    depth = rng.gamma(2.2, rng.uniform(5.0, 9.0, count)[:, None], (count, _CASCADE))
    aside = rng.standard_cauchy((count, _CASCADE)).clip(-8.0, 8.0) * (0.35 + 0.045 * depth)
    time = start[:, :1] + depth * direction[:, :1] + aside * direction[:, 1:]
    wire = start[:, 1:] + depth * direction[:, 1:] - aside * direction[:, :1]
    seen = np.arange(_CASCADE) < rng.integers(50, _CASCADE, count)[:, None]  # a soft shower has fewer
    cascade = _flat(patch, time, wire, rng.exponential(0.55, time.shape) * seen)
    first = _flat(patch, stem_time, stem_wire, stem)
    return _Deposits(*(np.concatenate([getattr(first, n), getattr(cascade, n)]) for n in first.__dataclass_fields__))


def _michel(rng: np.random.Generator, patch: NDArray[np.int64]) -> _Deposits:
    """Return muons that stop near the centre, each with an electron from its end."""
    count = len(patch)
    end = SIZE / 2.0 + rng.normal(0.0, 4.0, (count, 2))
    angle = rng.uniform(0.0, 2.0 * np.pi, count)
    time, wire = _path(rng, end, angle, 60, 0.02)  # backwards from the end
    residual = (np.arange(60) + 0.5) * _STEP
    muon = _flat(patch, time, wire, _landau(rng, time.shape) * (1.0 + 2.2 * np.exp(-residual / 3.5)))
    time, wire = _path(rng, end, rng.uniform(0.0, 2.0 * np.pi, count), 36, 0.12)
    length = np.clip(rng.normal(18.0, 7.0, count), 4.0, 36.0)
    electron = _flat(patch, time, wire, _landau(rng, time.shape) * (np.arange(36) < length[:, None]))
    return _Deposits(*(np.concatenate([getattr(muon, n), getattr(electron, n)]) for n in muon.__dataclass_fields__))


def _specks(rng: np.random.Generator, count: int) -> _Deposits:
    """Return a few single deposits per patch, as from radioactivity."""
    number = rng.poisson(1.5, count)
    patch = np.repeat(np.arange(count), number)
    time, wire = rng.uniform(0.0, SIZE, (2, len(patch)))
    return _Deposits(patch, time, wire, rng.exponential(0.8, len(patch)))


# ---- from deposits to pixels ---------------------------------------------------------------------------------------------


def _binned(count: int, patch: NDArray[np.int64], time: Float, wire: Float, charge: Float) -> Float:
    """Return images (count, 48, 48) in which each deposit is shared among the four nearest pixels."""
    low_time, low_wire = np.floor(time - 0.5).astype(np.int64), np.floor(wire - 0.5).astype(np.int64)
    part_time, part_wire = time - 0.5 - low_time, wire - 0.5 - low_wire
    image = np.zeros(count * SIZE * SIZE)
    for up in (0, 1):
        for right in (0, 1):
            t, w = low_time + up, low_wire + right
            inside = (t >= 0) & (t < SIZE) & (w >= 0) & (w < SIZE)
            share = (part_time if up else 1.0 - part_time) * (part_wire if right else 1.0 - part_wire)
            place = (patch * SIZE + t) * SIZE + w
            image += np.bincount(place[inside], (share * charge)[inside], len(image))
    return image.reshape(count, SIZE, SIZE)


def _shaped(image: Float) -> Float:
    """Return the images with every pixel spread along time by the response of the electronics."""
    reach = len(_SHAPING) // 2
    padded = np.pad(image, ((0, 0), (reach, reach), (0, 0)))
    parts = (weight * padded[:, i : i + SIZE] for i, weight in enumerate(_SHAPING))
    total = np.zeros_like(image)
    for part in parts:
        total += part
    return total
