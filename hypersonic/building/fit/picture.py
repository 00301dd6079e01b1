# SPDX-License-Identifier: Apache-2.0
"""Draws the designs that `hypersonic build --fit` found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from hypersonic.hls.resources import KINDS, LABELS
from hypersonic.hls.rf.fit.design import BUSY, Fit

mpl.use("Agg")

#: the most layers whose names are still legible
_NAMED = 24


def draw_fit(fit: Fit, file: Path) -> None:
    """Write a PNG with two panels: the share of the card against the rate, and the layers of the chosen design."""
    from matplotlib import pyplot as plt

    figure, (points, layers) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
    _draw_points(points, fit)
    _draw_layers(layers, fit)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw_points(axes: Any, fit: Fit) -> None:
    whole = fit.card.whole
    for number, kind in enumerate(kind for kind in KINDS if getattr(whole, kind)):
        for spans, label, fill in ((False, LABELS[kind], "full"), (True, None, "none")):
            points = [point for point in fit.points if point.design.spans == spans]
            shares = [point.units * getattr(point.design.unit, kind) / getattr(whole, kind) for point in points]
            rates = [point.rate_hz for point in points]
            axes.plot(rates, shares, f"C{number}o", markersize=4, alpha=0.75, fillstyle=fill, label=label)
    chosen = fit.chosen
    axes.axvline(chosen.rate_hz, color="grey", ls="--", lw=1)
    axes.plot([chosen.rate_hz], [chosen.fullest], "ko", markersize=9, fillstyle="none", label="chosen")
    axes.axhline(1, color="k", lw=0.8)
    axes.set(xscale="log", xlabel=f"inferences/s at {fit.card.clock_mhz:g} MHz, if timing is met")
    axes.set(ylabel="share of the resources for units (open: across dies)", ylim=(0, 1.08))
    axes.set_title(f"{fit.network}: {chosen.units} x {chosen.design.interval:,} clocks per row, {chosen.rate_hz:,.0f}/s")
    axes.legend(frameon=False, loc="upper left")
    axes.grid(visible=True, which="both", alpha=0.25)


def _draw_layers(axes: Any, fit: Fit) -> None:
    names = [layer.name for layer in fit.layers]
    colours = ["C1" if layer.coarse else "C0" for layer in fit.layers]
    axes.bar(range(len(names)), [layer.busy for layer in fit.layers], color=colours, width=0.8)
    axes.axhline(BUSY, color="grey", ls="--", lw=1, label=f"{BUSY:.0%}")
    if len(names) <= _NAMED:
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    else:
        axes.set_xlabel("layer")
    axes.set(ylabel="utilisation of its multipliers", ylim=(0, 1.05))
    axes.set_title("layers (orange: the next larger reuse factor is too slow)")
    axes.legend(frameon=False, loc="lower right")
    axes.grid(visible=True, axis="y", alpha=0.25)
