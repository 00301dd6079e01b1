# SPDX-License-Identifier: Apache-2.0
"""Quality of the missing momentum: width and response relative to the truth, next to sums that need no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.deepmet import events


@dataclass(frozen=True)
class Resolution:
    """Result of one method.

    width is half the distance between the 16 % and 84 % quantiles.

    Attributes:
        width, rms: of the errors of px and py, GeV.
        response: scale along the true direction, ideally 1.
    """

    method: str
    width: float
    rms: float
    response: float


def resolutions(generated: events.Events, outputs: Mapping[str, ArrayLike]) -> list[Resolution]:
    """Return one Resolution per method, the first two for the plain sum of all candidates and the sum weighted by PUPPI.

    Args:
        outputs: method -> px and py (n, 2) in units of events.SCALE_GEV.
    """
    everything = -generated.features[:, :, 6:8].astype(np.float64).sum(axis=1)
    estimates = {"sum of all": everything, "PUPPI": events.puppi_met(generated)}
    estimates |= {method: np.asarray(y, np.float64) * events.SCALE_GEV for method, y in outputs.items()}
    return [_resolution(method, met, generated.met.astype(np.float64)) for method, met in estimates.items()]


def _resolution(method: str, met: NDArray[np.float64], truth: NDArray[np.float64]) -> Resolution:
    error = (met - truth).reshape(-1)
    low, high = np.quantile(error, (0.16, 0.84))
    response = float((met * truth).sum() / (truth * truth).sum())
    return Resolution(method, float(high - low) / 2.0, float(np.sqrt(np.mean(error**2))), response)


def render(rows: list[Resolution]) -> str:
    """Return a table as text, one line per method."""
    head = f"{'GeV':<12}{'width':>8}{'rms':>8}{'response':>10}"
    return "\n".join([head, *(f"{r.method:<12}{r.width:>8.2f}{r.rms:>8.2f}{r.response:>10.3f}" for r in rows)])
