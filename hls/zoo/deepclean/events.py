# SPDX-License-Identifier: Apache-2.0
"""Toy witness channels of a gravitational-wave detector and the noise they cause in its strain, in the shapes of DeepClean.

There are 21 channels of 8192 samples (2 s at 4096 Hz, all of unit width): the mains with a varying amplitude, slow alignment
signals, and sensors of broadband vibration. The noise to be removed is bilinear (each slow signal modulates the mains, which
gives 60 Hz its sidebands) plus vibration through a resonance. The strain has further noise that no witness sees. The detector
is invented. Only numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

SAMPLES, CHANNELS = 8192, 21
RATE_HZ = 4096.0
HELD_OUT_SEED = 9001  # results are quoted on segments of this seed and above, which are not trained on
#: network value = wire value * 2**EXPONENT, for witnesses and noise, which maps +-8 to +-2
EXPONENT = -2
MAINS_HZ = 60.0
_ALIGNMENT = 12  # slow channels; channel 0 is the mains, the other 8 are vibration
_INTRINSIC = 0.3  # rms of the noise that no witness sees
_COUPLING_SEED = 1916  # the detector, the same in every data set


@dataclass(frozen=True)
class Segments:
    """All float32.

    Attributes:
        witness: (n, 8192, 21).
        noise: (n, 8192, 1), the part of the strain that the witnesses explain.
        strain: (n, 8192, 1), all of it.
    """

    witness: NDArray[np.float32]
    noise: NDArray[np.float32]
    strain: NDArray[np.float32]


def generate(count: int, seed: int) -> Segments:
    """Generate `count` segments, in a few milliseconds each. Segment i depends on (seed, i) only."""
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
    """Return the noise (8192,), of unit width on average, that the witnesses (8192, 21) cause in the strain."""
    rng = np.random.default_rng(_COUPLING_SEED)
    bilinear = rng.normal(0.0, 1.0, _ALIGNMENT)
    linear = rng.normal(0.0, 1.0, CHANNELS - 1 - _ALIGNMENT)
    slow, fast = witness[:, 1 : 1 + _ALIGNMENT], witness[:, 1 + _ALIGNMENT :]
    sidebands = witness[:, 0] * (slow @ bilinear) / np.linalg.norm(bilinear)
    vibration = _filtered((fast @ linear)[:, None] / np.linalg.norm(linear), _resonance)[:, 0]
    return np.asarray(0.8 * sidebands + 0.45 * witness[:, 0] + 0.4 * vibration)


def _witness(rng: np.random.Generator) -> Float:
    """Return the witnesses (8192, 21), each of about unit width."""
    t = np.arange(SAMPLES) / RATE_HZ
    wander = 1.0 + 0.1 * _coloured(rng, 1, _below(1.5))[:, 0]
    phase = 2.0 * np.pi * (rng.random() + 0.02 * _coloured(rng, 1, _below(1.5))[:, 0])
    mains = np.sqrt(2.0) * wander * np.sin(2.0 * np.pi * MAINS_HZ * t + phase)
    slow = _coloured(rng, _ALIGNMENT, lambda f: (f < 12.0) / np.sqrt(1.0 + (f / 3.0) ** 4))
    fast = _coloured(rng, CHANNELS - 1 - _ALIGNMENT, lambda f: (f > 8.0) / np.sqrt(1.0 + (f / 120.0) ** 2))
    return np.column_stack([mains, slow, fast])


def _coloured(rng: np.random.Generator, channels: int, amplitude: Callable[[Float], Float]) -> Float:
    """Return Gaussian noise (8192, channels) of unit width.

    Args:
        amplitude: a function of frequency in Hz; 0 Hz is left out.
    """
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
    """Return the response of a mirror's suspension: a broad peak at 90 Hz."""
    return np.asarray(1.0 / (1.0 - (frequency / 90.0) ** 2 + 1j * frequency / 250.0))


def gate_rows() -> NDArray[np.float32]:
    """Return the witnesses (2, 172032), flattened as on the wire, on which a conversion is compared with its network."""
    return generate(2, 9001).witness.reshape(2, -1)
