# SPDX-License-Identifier: Apache-2.0
"""Toy pulses of a digitiser: 16 samples each, with a known height, a random arrival time and noise. Only numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SAMPLES = 16
HELD_OUT_SEED = 9_000  # results are quoted on pulses of this seed and above, which are not trained on
_NOISE = 0.05  # rms of a sample


@dataclass(frozen=True)
class Pulses:
    """All float32.

    Attributes:
        samples: (n, 16).
        height: (n,), the true height, 0.5 to 8.
    """

    samples: NDArray[np.float32]
    height: NDArray[np.float32]


def generate(count: int, seed: int) -> Pulses:
    """Generate `count` pulses; the same seed gives the same bytes."""
    rng = np.random.default_rng([SAMPLES, seed])
    height, start = rng.uniform(0.5, 8.0, count), rng.uniform(2.0, 4.0, count)
    time = np.maximum(np.arange(SAMPLES) - start[:, None], 0.0) / 2.0
    samples = height[:, None] * time * np.exp(1.0 - time) + rng.normal(0.0, _NOISE, (count, SAMPLES))
    return Pulses(samples.astype(np.float32), height.astype(np.float32))


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (500, 16) on which a conversion is compared with the trained model."""
    return generate(500, HELD_OUT_SEED + 500).samples
