# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of loads. This is the one module of the client that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.client.load.errors import LoadError
from hypersonic.client.load.fit import Saturation, fit_saturation
from hypersonic.client.load.offer import Closed
from hypersonic.client.load.point import Point

try:
    import matplotlib as mpl
    import matplotlib.figure
except ImportError as error:
    raise LoadError("a plot needs matplotlib, which is not installed: pip install 'hypersonic[build]'") from error

mpl.use("Agg")

#: the quantiles that are drawn: name, style
_QUANTILES = (("p50", "C0o-"), ("p99", "C1s-"))


def check_path(path: Path) -> None:
    """Raise LoadError if no picture can be written there, before anything is measured."""
    formats = sorted(mpl.figure.Figure().canvas.get_supported_filetypes())
    if path.suffix.removeprefix(".") not in formats:
        raise LoadError(f"the plot's file is {str(path)!r}, expected a name that ends with one of .{', .'.join(formats)}")
    if not path.absolute().parent.is_dir():
        raise LoadError(f"cannot write {path}: no such directory: {path.parent}")


def draw(points: Sequence[Point], path: Path, title: str) -> None:
    """Write a picture of all points; the file's suffix says its format (.png, .svg, .pdf).

    Left: p50 and p99 of the latency against the rate of answers. Right, for two or more closed loops: latency against
    concurrency, with T = N / l of each loop and the fitted law. Raises LoadError if the file cannot be written.
    """
    from matplotlib import pyplot as plt

    shown = [point for point in points if point.answered]
    law = fit_saturation(shown)
    figure, all_axes = plt.subplots(
        1, 2 if law else 1, figsize=(11.5 if law else 6.5, 4.6), layout="constrained", squeeze=False
    )
    figure.suptitle(title)
    _draw_rates(all_axes[0, 0], shown, law)
    if law:
        _draw_law(all_axes[0, 1], [point for point in shown if isinstance(point.offer, Closed)], law)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise LoadError(f"cannot write {path}: {error}") from error
    finally:
        plt.close(figure)


def _draw_rates(axes: Any, points: Sequence[Point], law: Saturation | None) -> None:
    """Latency against rate; loads whose rate was not kept are hollow."""
    for name, style in _QUANTILES:
        rates, latencies = [p.rate for p in points], [getattr(p.latency, name) for p in points]
        axes.plot(rates, latencies, style, lw=1.5, ms=6, label=name)
        lost = [(p.rate, getattr(p.latency, name)) for p in points if not p.kept]
        if lost:
            axes.plot(*zip(*lost, strict=True), style[2], ls="", marker=style[2], ms=6, mfc="white", mec=style[:2], zorder=3)
    if any(not p.kept for p in points):
        axes.plot([], [], "ko", mfc="white", label="rate not kept")
    if law and np.isfinite(law.rate):
        axes.axvline(law.rate, color="grey", ls="--", lw=1.2, label=f"saturation: {law.rate:,.4g} requests/s")
    axes.set(xlabel="answered requests/s", ylabel="latency of a request, ms", xlim=(0, None), title="Latency against rate")
    _finish(axes)


def _draw_law(axes: Any, points: Sequence[Point], law: Saturation) -> None:
    """Latency against concurrency, with the law."""
    n = np.array([p.offer.concurrency for p in points if isinstance(p.offer, Closed)])
    for name, style in _QUANTILES:
        axes.plot(n, [getattr(p.latency, name) for p in points], style[:2] + style[2], ms=5, alpha=0.7, label=name)
    axes.plot(n, [1e3 * p.period_s for p in points], "k^", ms=7, label="T = N / l, measured")
    grid = np.geomspace(n.min(), n.max(), 400)
    saturated = f", l_max = {law.rate:,.4g}/s" if np.isfinite(law.rate) else ""
    label = f"T = max(T0, N / l_max): T0 = {1e3 * law.unloaded_s:.3g} ms{saturated}"
    axes.plot(grid, [1e3 * law.turn_s(at) for at in grid], "C3-", lw=2, label=label)
    if np.isfinite(law.n_star):
        axes.axvline(law.n_star, color="grey", ls="--", lw=1.2, label=f"N* = {law.n_star:.3g}")
    axes.set(xlabel="concurrency N, requests in flight", ylabel="time, ms", xscale="log", title="Latency against concurrency")
    axes.set_xticks(n, [str(each) for each in n])
    axes.minorticks_off()
    _finish(axes)


def _finish(axes: Any) -> None:
    """Logarithmic times, where they differ much, and the legend."""
    low, high = axes.get_ylim()
    values = np.concatenate([line.get_ydata() for line in axes.get_lines()[:2]])
    if values.min() > 0 and values.max() > 8 * values.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, high + 0.15 * (high - max(low, 0)))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(frameon=False, fontsize="small")
