# SPDX-License-Identifier: Apache-2.0
"""How much quieter the strain becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hypersonic.hls.zoo.deepclean import events


@dataclass(frozen=True)
class Cleaned:
    """Widths (rms) of the strain, left: of what is left of it. explained: part of the witnessed noise's power taken away."""

    method: str
    left: float
    explained: float


def cleaned(made: events.Segments, outputs: Mapping[str, ArrayLike]) -> list[Cleaned]:
    """outputs: by method, the noise found, (n, 8192, 1). After nothing at all and the truth."""
    noises = {"nothing": np.zeros_like(made.noise), "truth": made.noise, **outputs}
    return [_cleaned(method, made, np.asarray(noise, np.float64).reshape(made.noise.shape)) for method, noise in noises.items()]


def _cleaned(method: str, made: events.Segments, noise: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Cleaned:
    left = float(np.sqrt(np.mean((made.strain - noise) ** 2)))
    return Cleaned(method, left, 1.0 - float(np.mean((made.noise - noise) ** 2) / np.mean(made.noise.astype(np.float64) ** 2)))


def render(rows: list[Cleaned]) -> str:
    head = f"{'':<10}{'strain left':>12}{'noise power taken':>20}"
    return "\n".join([head, *(f"{row.method:<10}{row.left:>12.4f}{row.explained:>20.4f}" for row in rows)])
