# SPDX-License-Identifier: Apache-2.0
"""Shows the candidates of `hypersonic tune`: a table of those that no other beats, and a picture of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from hypersonic.hls.tune.search import Trial, Tuned

mpl.use("Agg")

_HEAD = ("loss", "of other rows", "bits", "LUT", "FF", "DSP48E2", "RAMB36", "clocks a row", "units", "rows/s", "card", "")


def front(trials: Sequence[Trial]) -> list[Trial]:
    """Return the candidates that no other beats in both loss and price, cheapest first."""
    kept: list[Trial] = []
    for trial in sorted((each for each in trials if each.cost), key=lambda each: (_price(each), each.loss)):
        if not kept or trial.loss < kept[-1].loss:
            kept.append(trial)
    return kept


def _price(trial: Trial) -> float:
    assert trial.cost is not None
    return trial.cost.price


def tune_lines(tuned: Tuned) -> list[str]:
    """Return the lines of the table, and what was chosen and how it was judged."""
    shown = front(tuned.trials)
    rows = [_cells(tuned, trial) for trial in [*shown, *([] if tuned.best in shown else [tuned.best])]]
    widths = [max(len(line[place]) for line in (_HEAD, *rows)) for place in range(len(_HEAD))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in (_HEAD, *rows)]
    best, beyond = tuned.best, tuned.best.judged > tuned.limit
    judged = f"loss {best.judged:.3%} on {tuned.judged:,} rows that the search did not use"
    lines += [
        "",
        f"bits are summed over {len(tuned.bits)} types",
        f"{len(tuned.trials)} candidates on {tuned.rows:,} rows; the search ended because {tuned.ended}",
        f"chosen: loss {best.loss:.3%}, limit {tuned.limit:.3%}; {judged}",
    ]
    if beyond:
        lines.append("WARNING: that is beyond the limit; search with more rows, or a smaller --loss")
    return lines


def _cells(tuned: Tuned, trial: Trial) -> tuple[str, ...]:
    cost = trial.cost
    assert cost is not None
    bits = sum(tuned.bits[name] - fewer for name, fewer in trial.fewer.items())
    amounts = [cost.core.text(kind) for kind in ("lut", "ff", "dsp", "bram36")]
    chosen = "chosen" if trial == tuned.best else "" if trial.is_within(tuned.limit) else "too far"
    return (
        f"{trial.loss:.3%}", f"{trial.judged:.3%}", f"{bits}", *amounts, f"{cost.clocks:,}", f"{cost.units}",
        f"{cost.rate_hz:,.0f}", f"{cost.share:.2%}", chosen,
    )  # fmt: skip


def draw_tuned(tuned: Tuned, file: Path) -> None:
    """Write a PNG: the loss of each candidate against the share of the card that a million rows per second take."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    trials = [trial for trial in tuned.trials if trial.cost]
    axes.plot(
        [_price(each) for each in trials], [100 * each.loss for each in trials], "C0o", ms=4, alpha=0.6, label="candidates"
    )
    shown = front(trials)
    axes.step(
        [_price(each) for each in shown], [100 * each.loss for each in shown], "C1-", where="post", label="not beaten by others"
    )
    axes.plot([_price(tuned.best)], [100 * tuned.best.loss], "ko", ms=9, fillstyle="none", label="chosen")
    axes.plot([_price(tuned.best)], [100 * tuned.best.judged], "kx", ms=7, label="chosen, on rows not used")
    axes.axhline(100 * tuned.limit, color="grey", ls="--", lw=1, label="limit")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(bottom=-0.002)
    axes.set(xscale="log", xlabel="share of the card for a million rows per second", ylabel="loss, per cent")
    axes.set_title(f"{tuned.file.stem}: {len(tuned.trials)} candidates")
    axes.legend(frameon=False)
    axes.grid(visible=True, which="both", alpha=0.25)
    figure.savefig(file, dpi=110)
    plt.close(figure)
