# SPDX-License-Identifier: Apache-2.0
"""How much quieter the strain is after the predicted noise is subtracted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hypersonic.hls.zoo.deepclean import events


@dataclass(frozen=True)
class Cleaned:
    """Result of one method.

    Attributes:
        left: rms of the strain after subtraction.
        explained: fraction of the witnessed noise's power that is removed; 1: all of it.
    """

    method: str
    left: float
    explained: float


def cleaned(segments: events.Segments, outputs: Mapping[str, ArrayLike]) -> list[Cleaned]:
    """Return one Cleaned per method, the first two for no subtraction ("nothing") and for the true noise ("truth").

    Args:
        outputs: method -> predicted noise (n, 8192, 1).
    """
    noises = {"nothing": np.zeros_like(segments.noise), "truth": segments.noise, **outputs}
    return [
        _cleaned(method, segments, np.asarray(noise, np.float64).reshape(segments.noise.shape))
        for method, noise in noises.items()
    ]


def _cleaned(method: str, segments: events.Segments, noise: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Cleaned:
    left = float(np.sqrt(np.mean((segments.strain - noise) ** 2)))
    return Cleaned(
        method, left, 1.0 - float(np.mean((segments.noise - noise) ** 2) / np.mean(segments.noise.astype(np.float64) ** 2))
    )


def render(rows: list[Cleaned]) -> str:
    """Return a table as text, one line per method."""
    head = f"{'':<10}{'strain left':>12}{'noise power taken':>20}"
    return "\n".join([head, *(f"{row.method:<10}{row.left:>12.4f}{row.explained:>20.4f}" for row in rows)])
