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
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
except ImportError as error:
    raise LoadError("a plot needs matplotlib, which is not installed: pip install matplotlib") from error

mpl.use("Agg")

#: the quantiles that are drawn: name, colour, marker
_QUANTILES = (("p50", "C0", "o"), ("p99", "C1", "s"))


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
    """Latency against rate. Closed loops have their concurrency beside them; loads whose rate was not kept are hollow."""
    rates = [point.rate for point in points]
    for name, colour, marker in _QUANTILES:
        latencies = [getattr(point.latency, name) for point in points]
        axes.plot(rates, latencies, color=colour, lw=1.5, label=name)
        faces = [colour if point.kept else "white" for point in points]
        axes.scatter(rates, latencies, c=faces, edgecolors=colour, marker=marker, s=36, zorder=3)
    for point in points:
        if isinstance(point.offer, Closed):
            place = point.rate, point.latency.p50
            axes.annotate(f"N={point.offer.concurrency}", place, (6, -11), textcoords="offset points", fontsize="small")
    if any(not point.kept for point in points):
        axes.scatter([], [], c="white", edgecolors="black", label="rate not kept")
    if law and np.isfinite(law.rate):
        axes.axvline(law.rate, color="grey", ls="--", lw=1.2, label=f"$l_{{max}}$ = {law.rate:,.4g} requests/s")
    axes.set(xlabel="answered requests/s", ylabel="latency of a request, ms", title="Latency against rate")
    axes.set_xlim(0, 1.12 * max(rates))
    _finish(axes, [getattr(point.latency, name) for point in points for name, _, _ in _QUANTILES], room=0.25)


def _draw_law(axes: Any, points: Sequence[Point], law: Saturation) -> None:
    """Latency against concurrency on logarithmic scales, on which the law is two straight lines."""
    n = np.array([point.offer.concurrency for point in points if isinstance(point.offer, Closed)])
    for name, colour, marker in _QUANTILES:
        axes.scatter(
            n, [getattr(point.latency, name) for point in points], c=colour, marker=marker, s=28, alpha=0.7, label=name
        )
    axes.scatter(
        n, [1e3 * point.period_s for point in points], c="black", marker="^", s=48, zorder=3, label="T = N / l, measured"
    )
    grid = np.geomspace(n.min(), n.max(), 400)
    fitted = f"fit: $T_0$ = {1e3 * law.unloaded_s:.3g} ms"
    fitted += f", $l_{{max}}$ = {law.rate:,.4g} requests/s" if np.isfinite(law.rate) else ", no saturation"
    axes.plot(grid, [1e3 * law.turn_s(at) for at in grid], "C3-", lw=2, label=f"T = max($T_0$, N / $l_{{max}}$),\n{fitted}")
    if np.isfinite(law.n_star):
        axes.axvline(law.n_star, color="grey", ls="--", lw=1.2, label=f"N* = $T_0$ $l_{{max}}$ = {law.n_star:.3g}")
    axes.set(
        xlabel="concurrency N, requests in flight",
        ylabel="time, ms",
        xscale="log",
        title=f"Latency against concurrency{': do not use the fit' if law.doubt else ''}",
    )
    axes.set_xticks(n, [str(each) for each in n])
    axes.set_xticks([], minor=True)
    times_ms = [1e3 * point.period_s for point in points] + [point.latency.p99 for point in points]
    _finish(axes, times_ms, room=0.7, logarithmic=True)


def _finish(axes: Any, times_ms: Sequence[float], *, room: float, logarithmic: bool = False) -> None:
    """Set the scale of the times: logarithmic if they differ much.

    Args:
        room: for the legend above them, in parts of their range.
    """
    low, high = min(times_ms), max(times_ms)
    if logarithmic or high > 8 * low:
        axes.set_yscale("log")
        axes.set_ylim(0.6 * low, 1.5 * high * (high / low) ** room)
        few = high < 100 * low
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, (1.1 + room) * high)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(edgecolor="none", framealpha=0.9, fontsize="small", loc="upper left")
