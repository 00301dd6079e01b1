# SPDX-License-Identifier: Apache-2.0
"""Draws the answers to a user's rows: against the labels, and against the trained model's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.tune.labels import Labels

Outputs = tuple[NDArray[np.float64], ...]

#: the most points, and the most classes with their counts written into the cells
_POINTS, _WRITTEN = 20_000, 12


def draw_own(left: Any, right: Any, served: Outputs, trained: Outputs, labels: tuple[Labels, ...]) -> None:
    """Draw into two of matplotlib's axes.

    Args:
        left: for classes the confusion matrix of the first labelled output, for numbers answers against labels, without labels
            answers against the trained model's.
        right: the difference from the trained model, of all outputs.
    """
    if labels and labels[0].classes is not None:
        _confusion(left, labels[0], served[labels[0].output])
    elif labels:
        _scatter(left, labels[0].values, served[labels[0].output], "label", labels[0].name)
    else:
        _scatter(left, np.concatenate(trained, axis=1), np.concatenate(served, axis=1), "trained model", "all outputs")
    off = (np.concatenate(served, axis=1) - np.concatenate(trained, axis=1)).reshape(-1)
    off = off[np.isfinite(off)]
    draw_histogram(right, off)
    right.set(
        yscale="log", xlabel="fixed point - trained model, in the output's units", ylabel="outputs",
        title=f"difference from the trained model, rms {np.sqrt(np.mean(off**2)):.3g}",
    )  # fmt: skip
    right.grid(visible=True, alpha=0.25)


def draw_histogram(axes: Any, off: NDArray[np.float64], label: str | None = None) -> None:
    """Draw the histogram of finite differences."""
    varies = off.size and np.ptp(off) > 1e-9 * np.abs(off).max()  # numpy refuses bins narrower than the rounding of the numbers
    axes.hist(off, bins=101 if varies else 1, histtype="step", lw=1.5, label=label)


def _confusion(axes: Any, labels: Labels, answers: NDArray[np.float64]) -> None:
    assert labels.classes is not None
    chosen, size = labels.chosen(answers), max(2, answers.shape[1])
    counts = np.zeros((size, size), np.int64)
    np.add.at(counts, (labels.classes, chosen), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    for (true, guess), count in np.ndenumerate(counts) if size <= _WRITTEN else ():
        axes.text(guess, true, f"{count:,}", ha="center", va="center", color="white" if shares[true, guess] > 0.5 else "black")
    accuracy = labels.figures(answers)["accuracy"]
    axes.set(xlabel="class of the answer", ylabel="class of the label", title=f"{labels.name}: accuracy {accuracy:.4f}")


def _scatter(axes: Any, x: NDArray[np.float64], y: NDArray[np.float64], of: str, name: str) -> None:
    x, y = x.reshape(-1)[:_POINTS], y.reshape(-1)[:_POINTS]
    axes.plot(x, y, ".", ms=2, alpha=0.4, rasterized=True)
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    axes.plot(ends, ends, "k-", lw=0.8)
    axes.set(xlabel=of, ylabel="answer", title=f"{name}: answers against the {of}")
    axes.grid(visible=True, alpha=0.25)
