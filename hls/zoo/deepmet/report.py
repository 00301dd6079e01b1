# SPDX-License-Identifier: Apache-2.0
"""How well missing momentum is found: bias and width against the truth, beside the sums that need no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.deepmet import events


@dataclass(frozen=True)
class Resolution:
    """GeV. width: half of what holds 68 % of the errors of px and py. response: along the true direction, over its size."""

    method: str
    width: float
    rms: float
    response: float


def resolutions(made: events.Events, outputs: Mapping[str, ArrayLike]) -> list[Resolution]:
    """outputs: by method, (n, 2) in units of SCALE_GEV. After two sums: of all candidates, and weighted by PUPPI."""
    everything = -made.features[:, :, 6:8].astype(np.float64).sum(axis=1)
    estimates = {"sum of all": everything, "PUPPI": events.puppi_met(made)}
    estimates |= {method: np.asarray(y, np.float64) * events.SCALE_GEV for method, y in outputs.items()}
    return [_resolution(method, met, made.met.astype(np.float64)) for method, met in estimates.items()]


def _resolution(method: str, met: NDArray[np.float64], truth: NDArray[np.float64]) -> Resolution:
    error = (met - truth).reshape(-1)
    low, high = np.quantile(error, (0.16, 0.84))
    response = float((met * truth).sum() / (truth * truth).sum())
    return Resolution(method, float(high - low) / 2.0, float(np.sqrt(np.mean(error**2))), response)


def render(rows: list[Resolution]) -> str:
    head = f"{'GeV':<12}{'width':>8}{'rms':>8}{'response':>10}"
    return "\n".join([head, *(f"{r.method:<12}{r.width:>8.2f}{r.rms:>8.2f}{r.response:>10.3f}" for r in rows)])
