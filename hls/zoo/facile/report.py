# SPDX-License-Identifier: Apache-2.0
"""Quality of reconstructed energies: bias and resolution in bins of true energy, and the response of empty channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import scales
from hypersonic.hls.zoo.facile.baselines import in_time_sum, template_fit

Float = NDArray[np.float64]

#: bins of true energy: lower and upper edge, GeV
BINS_GEV = ((0.5, 1.0), (1.0, 2.0), (2.0, 5.0), (5.0, 10.0), (10.0, 30.0), (30.0, 100.0), (100.0, 500.0))


@dataclass(frozen=True)
class Resolution:
    """Result of one method in one bin of true energy.

    Attributes:
        bias: median of reco/true, minus 1.
        sigma68: half the width of the central 68 % of reco/true.
        channels: entries in the bin.
    """

    method: str
    low_gev: float
    high_gev: float
    channels: int
    bias: float
    sigma68: float


@dataclass(frozen=True)
class EmptyChannels:
    """Result of one method for channels without energy: the 68 % and 99 % quantiles of |reco| and the mean of reco, in GeV."""

    method: str
    channels: int
    quantile68_gev: float
    quantile99_gev: float
    mean_gev: float


def half_width68(values: ArrayLike) -> float:
    """Return half the distance between the 15.865 % and 84.135 % quantiles, which is one sigma for a Gaussian."""
    low, high = np.quantile(np.asarray(values, np.float64), [0.15865525, 0.84134475])
    return float(high - low) / 2.0


def resolution_table(
    predictions: Mapping[str, ArrayLike], truth: ArrayLike, bins: Sequence[tuple[float, float]] = BINS_GEV
) -> list[Resolution]:
    """Return one Resolution per method and bin; bins without channels are left out.

    Args:
        predictions: method -> energies (n,) in GeV.
        truth: (n,) in GeV.

    Raises:
        ValueError: If their lengths differ.
    """
    true = np.asarray(truth, np.float64).reshape(-1)
    table = []
    for method, values in predictions.items():
        reco = _aligned(method, values, true)
        for low, high in bins:
            inside = (true >= low) & (true < high)
            if inside.any():
                ratio = reco[inside] / true[inside]
                table.append(Resolution(method, low, high, len(ratio), float(np.median(ratio)) - 1.0, half_width68(ratio)))
    return table


def empty_channels(predictions: Mapping[str, ArrayLike], truth: ArrayLike) -> list[EmptyChannels]:
    """Return one EmptyChannels per method, or an empty list if no channel has a true energy of 0.

    Args:
        predictions, truth: as for resolution_table.

    Raises:
        ValueError: If their lengths differ.
    """
    true = np.asarray(truth, np.float64).reshape(-1)
    empty = true == 0.0
    if not empty.any():
        return []
    rows = []
    for method, values in predictions.items():
        reco = _aligned(method, values, true)[empty]
        q68, q99 = np.quantile(np.abs(reco), [0.68, 0.99])
        rows.append(EmptyChannels(method, len(reco), float(q68), float(q99), float(reco.mean())))
    return rows


def _aligned(method: str, values: ArrayLike, true: Float) -> Float:
    reco = np.asarray(values, np.float64).reshape(-1)
    if reco.shape != true.shape:
        raise ValueError(f"{method}: {len(reco)} energies, expected {len(true)}, one per true energy")
    return reco


def render(table: Sequence[Resolution], empty: Sequence[EmptyChannels] = ()) -> str:
    """Return a table as text: a line per method, a column per bin with bias / sigma68, and last the empty channels."""
    bins = sorted({(row.low_gev, row.high_gev) for row in table})
    cells = {(row.method, row.low_gev, row.high_gev): f"{row.bias:+.3f} / {row.sigma68:.3f}" for row in table}
    quiet = {row.method: f"{row.quantile68_gev:.3f} / {row.quantile99_gev:.3f}" for row in empty}
    head = ["true energy, GeV", *(f"{low:g}-{high:g}" for low, high in bins), *(["empty 68 % / 99 %"] if quiet else [])]
    lines = [head]
    for method in dict.fromkeys(row.method for row in table):
        line = [method, *(cells.get((method, low, high), "") for low, high in bins)]
        lines.append(line + ([quiet.get(method, "")] if quiet else []))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


@lru_cache(maxsize=1)
def float_network() -> scales.Network:
    """Return the float network that ships with the project."""
    return scales.load(Path(__file__).with_name("facile_float.npz"))


def float_predict(rows: ArrayLike) -> Float:
    """Return the float network's energies (n,) in GeV for rows (n, 18) in wire units: the reference for the fabric."""
    return scales.predict(float_network(), rows)


def baselines(rows: NDArray[np.float32]) -> dict[str, Float]:
    """Return the energies (n,) in GeV of the methods without a network, by their names in the table."""
    return {"in-time sum": in_time_sum(rows), "template fit": template_fit(rows)}
