# SPDX-License-Identifier: Apache-2.0
"""Draws how close the fixed-point network is to the trained one."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

from hypersonic.own.picture import draw_histogram, draw_own
from hypersonic.reporting.line import Answers

mpl.use("Agg")

#: the most points in a panel; more would only make the file larger
_POINTS = 20_000


def draw(answers: Answers, file: Path) -> None:
    """Write a PNG with two panels: csim against the float network, and histograms of csim minus the float or quantised one.

    For a user's model, draw_own draws both panels.
    """
    from matplotlib import pyplot as plt

    line, numbers = answers.report, answers.numbers
    if own := answers.own:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
        draw_own(left, right, own.csim, own.trained, own.labels)
        figure.savefig(file, dpi=90)
        plt.close(figure)
        return
    x, y = (numbers[name].reshape(-1)[:_POINTS] for name in ("float", "csim"))
    figure, (scatter, spread) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    scatter.plot(x, y, ".", ms=2, alpha=0.4, rasterized=True)
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    scatter.plot([low, high], [low, high], "k-", lw=0.8)
    scatter.set(xlabel="float network", ylabel="csim = RTL" if line.core else "csim", title=f"{line.model}: {line.rows:,} rows")
    for name in (name for name in ("float", "quantised") if name in numbers):
        off = (numbers["csim"] - numbers[name]).reshape(-1)
        draw_histogram(spread, off, f"csim - {name}, rms {np.sqrt(np.mean(off**2)):.3g}")
    spread.set(yscale="log", xlabel="difference, in the output's units", ylabel="outputs", title=_merits(answers))
    spread.legend(frameon=False, loc="upper right", fontsize="small")
    for axes in (scatter, spread):
        axes.grid(visible=True, alpha=0.25)
    figure.savefig(file, dpi=90)
    plt.close(figure)


def _merits(answers: Answers) -> str:
    merit = answers.report.merit
    values = ", ".join(f"{name} {value:.4f}" for name, value in merit.items() if value is not None)
    return f"{answers.report.figure}:\n{values}" if values else f"figure of merit: {answers.report.figure}"
