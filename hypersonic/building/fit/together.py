# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build A B --together NAME --fit CARD --rates A=5000,B=100000`: shares a card between several rf cores.

Each model alone is searched first (hls/rf/fit/search.py). Of the designs found, every model takes the smallest one that reaches
its rate, and then its rate times the largest factor for which all designs fit the card. Resources are estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.kernel.vitis_xml import describe_units
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.xclbin.connectivity import place_kernels
from hypersonic.hls.resources import KINDS, LABELS
from hypersonic.hls.rf.fit.design import DesignPoint, Fit
from hypersonic.hls.rf.fit.share import Share, shares

#: the most shares that the table shows; if there are more, it shows evenly spaced ones
_ROWS = 24


@dataclass(frozen=True)
class Shared:
    """The shares of a card.

    Attributes:
        rates_hz: the requested rates. chosen: the share with the largest factor.
    """

    fits: tuple[Fit, ...]
    rates_hz: tuple[float, ...]
    found: tuple[Share, ...]

    @property
    def chosen(self) -> Share:
        """The share that is built."""
        return self.found[0]


def share_card(platform: Platform, fits: Sequence[Fit], rates_hz: Sequence[float]) -> Shared:
    """Share a card between networks.

    Args:
        fits: each network's own.
        rates_hz: as requested.

    Raises:
        FitError: Which names them.
    """

    def holds(points: Sequence[DesignPoint]) -> bool:
        kernels = [describe_units(fit.network, point.units) for fit, point in zip(fits, points, strict=True)]
        try:
            place_kernels(platform, kernels, [point.design.unit for point in points])
        except LinkError:
            return False
        return True

    return Shared(tuple(fits), tuple(rates_hz), shares(fits, rates_hz, holds))


def share_lines(shared: Shared) -> list[str]:
    """Return the lines of the table: one for each share that no other beats, and what is chosen."""
    fits, chosen = shared.fits, shared.chosen
    asked = ", ".join(f"{fit.network} {rate:,.0f}/s" for fit, rate in zip(fits, shared.rates_hz, strict=True))
    heads = [
        "",
        "x rates",
        *(f"{fit.network} (units x clocks/row)" for fit in fits),
        *(LABELS[kind] for kind in KINDS),
        "fullest",
    ]
    rows = [heads, *(_cells(shared, share) for share in _shown(shared))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    reached = ", ".join(f"{fit.network} {point.rate_hz:,.0f}/s" for fit, point in zip(fits, chosen.points, strict=True))
    head = f"shares of {fits[0].card.name} for {asked} that no other beats; resources of all units, estimated"
    cores = (
        f"the cores alone: {reached}, at {fits[0].card.clock_mhz:g} MHz, which no tool has confirmed by placing them; "
        f"{chosen.fullest:.0%} of the card's {LABELS[chosen.kind]} for units"
    )
    return [head, *lines, f"chosen: {chosen.factor:,.3g} times the rates asked for", cores]


def _cells(shared: Shared, share: Share) -> list[str]:
    designs = [f"{point.units} x {point.design.interval:,}" for point in share.points]
    amounts = [f"{getattr(share.amounts, kind):,.0f}" for kind in KINDS]
    mark = "*" if share == shared.chosen else ""
    return [mark, f"{share.factor:,.3g}", *designs, *amounts, f"{share.fullest:.0%} {LABELS[share.kind]}"]


def _shown(shared: Shared) -> Sequence[Share]:
    found = shared.found
    if len(found) <= _ROWS:
        return found
    return [found[round(step * (len(found) - 1) / (_ROWS - 1))] for step in range(_ROWS)]


def draw_shares(shared: Shared, file: Path) -> None:
    """Write a PNG: the share of the card that each network takes, against the factor of the rates."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    whole, factors = shared.fits[0].card.whole, [share.factor for share in shared.found]
    for number, fit in enumerate(shared.fits):
        own = [share.points[number].design.unit.times(share.points[number].units).fullest(whole)[0] for share in shared.found]
        axes.plot(factors, own, "o-", ms=4, lw=0.8, label=f"{fit.network} alone")
    axes.plot(factors, [share.fullest for share in shared.found], "ks-", ms=4, lw=0.8, label="together")
    axes.plot([shared.chosen.factor], [shared.chosen.fullest], "ko", ms=10, fillstyle="none", label="chosen")
    axes.axhline(1, color="k", lw=0.8)
    axes.axvline(1, color="grey", ls="--", lw=1, label="rates asked for")
    axes.set(xscale="log", xlabel="multiple of the rates asked for", ylabel="share of the resources for units", ylim=(0, 1.08))
    axes.set_title(f"{', '.join(fit.network for fit in shared.fits)} on {shared.fits[0].card.name}")
    axes.legend(frameon=False)
    axes.grid(visible=True, which="both", alpha=0.25)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)
