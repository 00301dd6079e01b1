# SPDX-License-Identifier: Apache-2.0
"""Reconstruction of a channel without a network: the in-time sum (CMS "Method 0") and a three-pulse template fit ("MAHI").

Both know the channel's true gain and the nominal pulse shape; neither knows when a pulse actually arrives.
Rows are (n, 18) as in events.FEATURES; energies are (n,) float64, GeV.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.facile import events

Float = NDArray[np.float64]
Rows = NDArray[np.float32]

_IN_TIME = slice(events.SAMPLE_OF_INTEREST, events.SAMPLE_OF_INTEREST + 2)


def charges(rows: Rows) -> Float:
    """Return the charges above pedestal (n, 8) in fC."""
    first = events.FIRST_CHARGE
    return rows[:, first : first + events.SLICES].astype(np.float64) - events.PEDESTAL_FC


@lru_cache(maxsize=1)
def _mean_fractions() -> Float:
    """Return the fractions (8,) of a pulse's charge per time slice, averaged over the arrival jitter."""
    quantiles = np.linspace(-3.0, 3.0, 61)
    weight = np.exp(-0.5 * quantiles**2)
    return np.asarray(weight @ events.slice_fractions(events.JITTER_NS * quantiles) / weight.sum())


def in_time_sum(rows: Rows) -> Float:
    """Return the energies from two time slices, starting at the sample of interest.

    The charge above pedestal times the gain is divided by the fraction of a pulse that falls into the two slices.
    """
    gain = rows[:, 2].astype(np.float64)
    return np.asarray(charges(rows)[:, _IN_TIME].sum(axis=1) * gain / _mean_fractions()[_IN_TIME].sum())


def template_fit(rows: Rows) -> Float:
    """Return the energies from the BX 0 pulse in a non-negative least-squares fit of pulses in BX -1, 0 and +1.

    The covariance of a channel's slices has noise, photo-electron statistics and digitisation on its diagonal, plus a fully
    correlated term for the charge that an early or late arrival moves between slices.
    """
    charge, gain = charges(rows), rows[:, 2].astype(np.float64)
    amplitude = nnls(_templates(), charge, _weight(charge))
    return np.asarray(amplitude[:, 1] * gain)


@lru_cache(maxsize=1)
def _templates() -> Float:
    """Return unit pulses of BX -1, 0 and +1 (3, 8)."""
    return events.slice_fractions(events.SLICE_NS * np.array([-1.0, 0.0, 1.0]))


def _weight(charge: Float) -> Float:
    """Return the inverse covariances (n, 8, 8) in 1/fC^2: a diagonal plus an outer product, by the Sherman-Morrison formula."""
    signal = np.maximum(charge, 0.0)
    digitisation = 0.013 * signal  # QIE11 bins are 1 to 8 % wide
    poisson = events.CHARGE_PER_PE_FC * (signal + events.DARK_PE * events.CHARGE_PER_PE_FC)
    inverse = 1.0 / (events.NOISE_FC**2 + poisson + digitisation**2)
    half = 0.5 * events.JITTER_NS
    moved = np.diff(events.slice_fractions(np.array([-half, half])), axis=0) * signal[:, _IN_TIME].sum(axis=1, keepdims=True)
    column = inverse * moved
    norm = 1.0 + (column * moved).sum(axis=1)
    weight = -column[:, :, None] * (column / norm[:, None])[:, None, :]
    diagonal = np.arange(events.SLICES)
    weight[:, diagonal, diagonal] += inverse
    return np.asarray(weight)


def nnls(templates: Float, data: Float, weight: Float) -> Float:
    """Solve non-negative least squares exactly for all rows at once; return the amplitudes (n, k).

    Each of the 2**k - 1 sets of pulses that may be present (7 for k = 3) is solved in closed form, and the best feasible one is
    kept.

    Args:
        templates: (k, m).
        data: (n, m).
        weight: (n, m, m), symmetric inverse covariances.
    """
    k = len(templates)
    weighted = templates @ weight  # (n, k, m)
    normal = weighted @ templates.T
    right = (weighted @ data[:, :, None])[..., 0]
    best = np.zeros((len(data), k))
    gain = np.zeros(len(data))  # reduction of chi2 relative to no pulse at all
    for size in range(1, k + 1):
        for present in map(list, combinations(range(k), size)):
            amplitude = np.linalg.solve(normal[:, present][:, :, present], right[:, present, None])[..., 0]
            lowered = (amplitude * right[:, present]).sum(axis=1)
            better = (amplitude >= 0.0).all(axis=1) & (lowered > gain)
            candidate = np.zeros_like(best)
            candidate[:, present] = amplitude
            best = np.where(better[:, None], candidate, best)
            gain = np.where(better, lowered, gain)
    return best
