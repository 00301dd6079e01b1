# SPDX-License-Identifier: Apache-2.0
"""How good a tagger is: the area under each class' ROC curve, and the fraction of jets that get their own class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.jets.events import INPUT_EXPONENTS
from hypersonic.hls.zoo.jets.shower import CLASSES


@dataclass(frozen=True)
class Tagging:
    """One method. auc: per class, it against all others; accuracy: the largest output is the jet's class."""

    method: str
    jets: int
    auc: tuple[float, ...]
    accuracy: float


def area_under_curve(score: ArrayLike, signal: ArrayLike) -> float:
    """The chance that a signal jet scores above a background jet, ties counted half (Mann and Whitney's U)."""
    values, is_signal = np.asarray(score, np.float64), np.asarray(signal, np.bool_)
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[place]
    wins = rank[is_signal].sum() - is_signal.sum() * (is_signal.sum() + 1) / 2.0
    return float(wins / (is_signal.sum() * (~is_signal).sum()))


def tagging(predictions: Mapping[str, ArrayLike], label: NDArray[np.int64]) -> list[Tagging]:
    """predictions: method -> outputs (n, 5); label (n,). Raises ValueError for another number of jets."""
    table = []
    for method, values in predictions.items():
        output = np.asarray(values, np.float64)
        if output.shape != (len(label), len(CLASSES)):
            raise ValueError(f"{method}: outputs have shape {output.shape}, expected {(len(label), len(CLASSES))}")
        auc = tuple(area_under_curve(output[:, i], label == i) for i in range(len(CLASSES)))
        table.append(Tagging(method, len(label), auc, float((output.argmax(axis=1) == label).mean())))
    return table


def render(table: list[Tagging]) -> str:
    """Text: a line per method, a column per class with its AUC, the accuracy last."""
    lines = [["AUC", *CLASSES, "accuracy"]]
    lines += [[row.method, *(f"{auc:.4f}" for auc in row.auc), f"{row.accuracy:.4f}"] for row in table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


# ---- the float network that ships ----------------------------------------------------------------------------------------


def save_float(path: Path, weights: Sequence[NDArray[np.float32]]) -> None:
    """An .npz with the Keras weights of the float network in their order: kernel and bias of each layer."""
    arrays: dict[str, Any] = {f"array{i:02d}": array for i, array in enumerate(weights)}
    np.savez(path, **arrays)


def float_logits(rows: ArrayLike) -> NDArray[np.float64]:
    """Rows (n, 16) as on the wire -> the last layer's results (n, 5), before softmax, by the float network that ships."""
    with np.load(Path(__file__).with_name("jets_float.npz")) as stored:
        arrays = [stored[name].astype(np.float64) for name in sorted(stored.files)]
    z = np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS))
    for kernel, bias in zip(arrays[:-2:2], arrays[1:-2:2], strict=True):
        z = np.maximum(z @ kernel + bias, 0.0)
    return np.asarray(z @ arrays[-2] + arrays[-1])


def softmax(logits: ArrayLike) -> NDArray[np.float64]:
    """(n, 5) -> probabilities (n, 5)."""
    z = np.asarray(logits, np.float64)
    grown = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def float_predict(rows: ArrayLike) -> NDArray[np.float64]:
    """Rows (n, 16) as on the wire -> class probabilities (n, 5) by the float network that ships."""
    return softmax(float_logits(rows))
