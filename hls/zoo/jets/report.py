# SPDX-License-Identifier: Apache-2.0
"""Quality of a tagger: the area under each class' ROC curve, and the fraction of jets that are classified correctly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.jets.events import INPUT_EXPONENTS
from hypersonic.hls.zoo.jets.shower import CLASSES
from hypersonic.hls.zoo.task import Outputs


@dataclass(frozen=True)
class Tagging:
    """Result of one method.

    Attributes:
        auc: per class, against all others.
        accuracy: fraction of jets whose largest output is their class.
    """

    method: str
    jets: int
    auc: tuple[float, ...]
    accuracy: float


def area_under_curve(score: ArrayLike, signal: ArrayLike) -> float:
    """Return the probability that a signal jet scores above a background jet; ties count half (Mann-Whitney U).

    Both classes must occur.

    Args:
        score: (n,).
        signal: (n,), true for signal jets.
    """
    values, is_signal = np.asarray(score, np.float64), np.asarray(signal, np.bool_)
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[place]
    wins = rank[is_signal].sum() - is_signal.sum() * (is_signal.sum() + 1) / 2.0
    return float(wins / (is_signal.sum() * (~is_signal).sum()))


def area(outputs: Outputs, signal: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of a task's only output (n, 1).

    Args:
        signal: (n,), 1 for signal.
    """
    return area_under_curve(outputs[0].reshape(-1), signal == 1)


def tagging(predictions: Mapping[str, ArrayLike], label: NDArray[np.int64]) -> list[Tagging]:
    """Return one Tagging per method.

    Args:
        predictions: method -> outputs (n, 5).
        label: (n,), indices into CLASSES.

    Raises:
        ValueError: For outputs of another shape.
    """
    table = []
    for method, values in predictions.items():
        output = np.asarray(values, np.float64)
        if output.shape != (len(label), len(CLASSES)):
            raise ValueError(f"{method}: outputs have shape {output.shape}, expected {(len(label), len(CLASSES))}")
        auc = tuple(area_under_curve(output[:, i], label == i) for i in range(len(CLASSES)))
        table.append(Tagging(method, len(label), auc, float((output.argmax(axis=1) == label).mean())))
    return table


def render(table: list[Tagging]) -> str:
    """Return a table as text: a line per method, a column per class with its AUC, and last the accuracy."""
    lines = [["AUC", *CLASSES, "accuracy"]]
    lines += [[row.method, *(f"{auc:.4f}" for auc in row.auc), f"{row.accuracy:.4f}"] for row in table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


# ---- the float network that ships ----------------------------------------------------------------------------------------


def save_float(path: Path, weights: Sequence[NDArray[np.float32]]) -> None:
    """Write an .npz with the float network's Keras weights in order: kernel and bias of each layer."""
    arrays: dict[str, Any] = {f"array{i:02d}": array for i, array in enumerate(weights)}
    np.savez(path, **arrays)


def float_logits(rows: ArrayLike) -> NDArray[np.float64]:
    """Return the shipped float network's logits (n, 5) for rows (n, 16) in wire units."""
    with np.load(Path(__file__).with_name("jets_float.npz")) as stored:
        arrays = [stored[name].astype(np.float64) for name in sorted(stored.files)]
    z = np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS))
    for kernel, bias in zip(arrays[:-2:2], arrays[1:-2:2], strict=True):
        z = np.maximum(z @ kernel + bias, 0.0)
    return np.asarray(z @ arrays[-2] + arrays[-1])


def softmax(logits: ArrayLike) -> NDArray[np.float64]:
    """Return the probabilities (n, 5) for logits (n, 5)."""
    z = np.asarray(logits, np.float64)
    grown = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def float_predict(rows: ArrayLike) -> NDArray[np.float64]:
    """Return the shipped float network's class probabilities (n, 5) for rows (n, 16) in wire units."""
    return softmax(float_logits(rows))
