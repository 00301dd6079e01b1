# SPDX-License-Identifier: Apache-2.0
"""Toy witnesses of a gravitational-wave detector and the noise they put into its strain, in the shapes DeepClean takes.

21 channels of 8192 samples (2 s at 4096 Hz, all of unit width): the mains with its wandering amplitude, slow alignment
signals, and sensors that see broadband vibration. The strain's noise to be taken away is bilinear, each slow signal
modulating the mains, which gives 60 Hz its sidebands, plus vibration through a resonance; beneath lies what no witness sees.
Nobody's detector. Only numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

SAMPLES, CHANNELS = 8192, 21
RATE_HZ = 4096.0
HELD_OUT_SEED = 9001  # figures are made on segments of this seed and above, never trained on
#: the network's numbers are those on the wire times 2**EXPONENT, witnesses and noise alike: +-8 into +-2
EXPONENT = -2
MAINS_HZ = 60.0
_ALIGNMENT = 12  # slow channels; the mains is channel 0, the other 8 see vibration
_INTRINSIC = 0.3  # rms of what no witness sees
_COUPLING_SEED = 1916  # the detector, the same in every data set


@dataclass(frozen=True)
class Segments:
    """witness (n, 8192, 21); noise (n, 8192, 1): what the witnesses explain; strain (n, 8192, 1): noise and the rest.
    float32."""

    witness: NDArray[np.float32]
    noise: NDArray[np.float32]
    strain: NDArray[np.float32]


def generate(count: int, seed: int) -> Segments:
    """`count` segments, a few milliseconds each. Segment i depends on (seed, i) alone."""
    witness = np.empty((count, SAMPLES, CHANNELS), np.float32)
    noise, strain = (np.empty((count, SAMPLES, 1), np.float32) for _ in range(2))
    for i in range(count):
        rng = np.random.default_rng([8192, seed, i])
        seen = _witness(rng)
        explained = coupled(seen)
        witness[i] = seen + 0.02 * rng.normal(size=seen.shape)  # the sensors' own noise
        noise[i, :, 0] = explained
        strain[i, :, 0] = explained + _coloured(rng, 1, lambda f: 1.0 / np.sqrt(1.0 + (f / 200.0) ** 2))[:, 0] * _INTRINSIC
    return Segments(witness, noise, strain)


def coupled(witness: Float) -> Float:
    """What the witnesses (8192, 21) put into the strain (8192,): unit width on average."""
    rng = np.random.default_rng(_COUPLING_SEED)
    bilinear = rng.normal(0.0, 1.0, _ALIGNMENT)
    linear = rng.normal(0.0, 1.0, CHANNELS - 1 - _ALIGNMENT)
    slow, fast = witness[:, 1 : 1 + _ALIGNMENT], witness[:, 1 + _ALIGNMENT :]
    sidebands = witness[:, 0] * (slow @ bilinear) / np.linalg.norm(bilinear)
    vibration = _filtered((fast @ linear)[:, None] / np.linalg.norm(linear), _resonance)[:, 0]
    return np.asarray(0.8 * sidebands + 0.45 * witness[:, 0] + 0.4 * vibration)


def _witness(rng: np.random.Generator) -> Float:
    """(8192, 21), each of about unit width."""
    t = np.arange(SAMPLES) / RATE_HZ
    wander = 1.0 + 0.1 * _coloured(rng, 1, _below(1.5))[:, 0]
    phase = 2.0 * np.pi * (rng.random() + 0.02 * _coloured(rng, 1, _below(1.5))[:, 0])
    mains = np.sqrt(2.0) * wander * np.sin(2.0 * np.pi * MAINS_HZ * t + phase)
    slow = _coloured(rng, _ALIGNMENT, lambda f: (f < 12.0) / np.sqrt(1.0 + (f / 3.0) ** 4))
    fast = _coloured(rng, CHANNELS - 1 - _ALIGNMENT, lambda f: (f > 8.0) / np.sqrt(1.0 + (f / 120.0) ** 2))
    return np.column_stack([mains, slow, fast])


def _coloured(rng: np.random.Generator, channels: int, amplitude: Callable[[Float], Float]) -> Float:
    """Gaussian noise (8192, channels) of unit width with this amplitude over frequency in Hz, nothing at 0 Hz."""
    frequency = _frequencies()
    shape = np.asarray(amplitude(frequency), np.float64)
    shape[0] = 0.0
    parts = rng.normal(size=(2, len(frequency), channels)) * shape[:, None]
    noise = np.fft.irfft(parts[0] + 1j * parts[1], SAMPLES, axis=0)
    return np.asarray(noise * SAMPLES / np.sqrt(4.0 * np.sum(shape**2)))


def _below(highest_hz: float) -> Callable[[Float], Float]:
    return lambda frequency: np.asarray(frequency < highest_hz, np.float64)


def _frequencies() -> Float:
    return np.asarray(np.fft.rfftfreq(SAMPLES, 1.0 / RATE_HZ), np.float64)


def _filtered(signal: Float, response: Callable[[Float], Float]) -> Float:
    frequency = _frequencies()
    return np.asarray(np.fft.irfft(np.fft.rfft(signal, axis=0) * response(frequency)[:, None], SAMPLES, axis=0))


def _resonance(frequency: Float) -> Float:
    """Of a mirror's suspension: a broad peak at 90 Hz."""
    return np.asarray(1.0 / (1.0 - (frequency / 90.0) ** 2 + 1j * frequency / 250.0))


def gate_rows() -> NDArray[np.float32]:
    """Witnesses (2, 172032), flattened as on the wire."""
    return generate(2, 9001).witness.reshape(2, -1)
