# SPDX-License-Identifier: Apache-2.0
"""Shows the figures of an Outcome: a table on the terminal, and a picture."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

from hypersonic.events.outcome import SERVED, Outcome
from hypersonic.firmware.estimate.rates import the
from hypersonic.hls.disk import naming
from hypersonic.hls.zoo.facile.report import Resolution
from hypersonic.own.picture import draw_own

mpl.use("Agg")


def show(outcome: Outcome, directory: Path) -> None:
    """Print the table; write figures.json and result.png into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with naming(directory):
        (directory / "figures.json").write_text(json.dumps(outcome.figures(), indent=2) + "\n")
        draw(outcome, directory / "result.png")
    print_table(outcome, directory / "result.png")


def print_table(outcome: Outcome, picture: Path) -> None:
    """Print one table: rate, latency, clocks and figure of merit, and for FACILE bias and sigma68 per energy bin.

    Args:
        picture: the file that the last line names.
    """
    console = Console(width=None if Console().is_terminal else 120)
    requests = len(outcome.load.outputs)
    sent = f"{outcome.own_rows:,} rows in {requests:,} requests" if outcome.judged else f"{requests:,} events"
    table = Table(title=f"{outcome.model}: {sent} from {outcome.clients} clients", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for row in _rows(outcome):
        table.add_row(*row)
    if outcome.resolution:
        _add_resolution(table, outcome)
    if outcome.judged:
        table.add_section()
        for name, values, meaning in outcome.judged.figures:
            beside = f", the trained model's {values['trained']:.4g}" if "trained" in values else ""
            table.add_row(name, f"{values['served']:.4g}", f"{meaning}{beside}")
    console.print(table)
    console.print(f"picture: {picture}", highlight=False)
    if outcome.merit.warning:
        sys.stderr.write(f"hypersonic: WARNING: {outcome.model}: {outcome.merit.warning}\n")


def _add_resolution(table: Table, outcome: Outcome) -> None:
    *others, served = dict.fromkeys(row.method for row in outcome.resolution)
    table.add_section()
    table.add_row("bias / sigma68 at GeV", served, "  ".join(f"{method:<16}" for method in others))
    cells = {(row.low_gev, row.high_gev, row.method): f"{row.bias:+.4f} / {row.sigma68:.4f}" for row in outcome.resolution}
    for low, high in dict.fromkeys((row.low_gev, row.high_gev) for row in outcome.resolution):
        beside = "  ".join(cells[low, high, method] for method in others)
        table.add_row(f"{low:g} - {high:g}", cells[low, high, served], beside)


def _rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Return the lines of rates: of a user's rows in rows/s, of generated events in events/s."""
    load, clocks, rows = outcome.load, outcome.clocks_per_event, outcome.mean_rows
    checked = f"{outcome.compared:,}" if outcome.compared else "not checked"
    unit, times, of = ("rows", rows, f" for {rows:g} rows a request") if outcome.judged else ("events", 1.0, "")
    lines = [
        ("answers equal to csim", checked, "compared as integers"),
        (f"{unit}/s", f"{times * load.events_per_s:,.1f}", "simulated card on this machine"),
        ("latency p50 / p99, ms", f"{load.latency_ms(0.5):.0f} / {load.latency_ms(0.99):.0f}", "as the clients saw it"),
    ]
    if rate := outcome.rate:
        limited = f"a prediction{of}: {the(rate.limited_by)} limits it"
        lines += [
            (
                f"clocks per {'request' if outcome.judged else 'event'}",
                f"{clocks:,.0f}",
                f"{clocks / rows:.3f} per row, counted by the kernel",
            ),
            (f"{unit}/s on a {rate.platform}", f"{times * rate.events_per_s:,.0f}", limited),
            *((f"  {limit.part}", f"{times * limit.events_per_s:,.0f}", str(limit)) for limit in rate.limits),
        ]
    merit = outcome.merit
    if outcome.judged:
        return lines
    before = "" if merit.before is None else f", the float network's {merit.before:.4f}"
    served = "-" if merit.served is None else f"{merit.served:.4f}"
    lines.append(("figure of merit", served, f"{merit.name}{before}"))
    return lines


def draw(outcome: Outcome, file: Path) -> None:
    """Write a PNG with the latency of every request, for FACILE resolution and bias against true energy, for a user's rows
    what draw_own draws."""
    from matplotlib import pyplot as plt

    if outcome.judged:
        figure, (left, right, latency) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
        draw_own(left, right, outcome.judged.served, outcome.judged.trained, outcome.judged.labels)
        _draw_latency(latency, outcome)
        figure.savefig(file, dpi=110)
        plt.close(figure)
        return
    if not outcome.resolution:
        figure, axes = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
        _draw_latency(axes, outcome)
        figure.savefig(file, dpi=110)
        plt.close(figure)
        return
    figure, (resolution, bias, latency) = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
    _draw_methods(resolution, outcome, lambda row, energy: row.sigma68 * np.sqrt(energy))
    resolution.set(ylabel=r"sigma68 of reco / true, times $\sqrt{E/\mathrm{GeV}}$", ylim=(0, None), title="resolution")
    _draw_methods(bias, outcome, lambda row, _energy: row.bias)
    bias.axhspan(-0.03, 0.03, color="grey", alpha=0.12, lw=0)
    bias.set(ylabel="median of reco / true, minus 1", title="bias (band: 3 %)")
    resolution.legend(frameon=False)
    _draw_latency(latency, outcome)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw_methods(axes: Any, outcome: Outcome, value: Callable[[Resolution, float], float]) -> None:
    styles = {"in-time sum": "C0:", "template fit": "C1-.", "float network": "k--", SERVED: "C3-"}
    for method in dict.fromkeys(row.method for row in outcome.resolution):
        rows = [row for row in outcome.resolution if row.method == method]
        energy = [float(np.sqrt(row.low_gev * row.high_gev)) for row in rows]
        values = [value(row, at) for row, at in zip(rows, energy, strict=True)]
        axes.plot(energy, values, styles[method], marker="o", markersize=4, lw=2.5 if method == SERVED else 1.2, label=method)
    axes.set(xscale="log", xlabel="true energy, GeV")
    axes.grid(visible=True, which="both", alpha=0.25)


def _draw_latency(axes: Any, outcome: Outcome) -> None:
    latency_ms = np.sort(outcome.load.latencies_ns) * 1e-6
    axes.step(latency_ms, np.arange(1, len(latency_ms) + 1) / len(latency_ms), where="post", lw=2)
    for quantile, line in ((0.5, "--"), (0.99, ":")):
        at = outcome.load.latency_ms(quantile)
        axes.axvline(at, color="grey", ls=line, lw=1, label=f"p{quantile * 100:g}: {at:.0f} ms")
    axes.legend(frameon=False, loc="upper left")
    sent = "request" if outcome.judged else "event"
    axes.set(xlabel=f"latency of one {sent}, ms", ylabel=f"share of {sent}s", xlim=(0, None), ylim=(0, 1.02))
    axes.set_title(f"{outcome.clients} clients, simulated card: {outcome.load.events_per_s:.1f} {sent}s/s")
    axes.grid(visible=True, alpha=0.25)
