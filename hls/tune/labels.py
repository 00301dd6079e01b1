# SPDX-License-Identifier: Apache-2.0
"""Labels of a user's rows, and the figures by them: accuracy for classes, resolution and bias for numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.frontend.rows import RowsError, read_arrays
from hypersonic.hls.row import Row

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Labels:
    """The true values of one output.

    Attributes:
        output: its index among the model's outputs.
        name: its name.
        classes: (rows,) the true class of each row, for a classifier; None for a regression.
        values: (rows, elements), the true numbers, or one-hot classes.
        threshold: a single output above it means class 1; not used for several.
    """

    output: int
    name: str
    values: Numbers
    classes: NDArray[np.int64] | None = None
    threshold: float = 0.5

    def chosen(self, answers: Numbers) -> NDArray[np.int64]:
        """Return the class that answers (rows, elements) choose: the largest output, or whether the only one is above the
        threshold."""
        return (answers[:, 0] > self.threshold).astype(np.int64) if answers.shape[1] == 1 else answers.argmax(axis=1)

    def figures(self, answers: Numbers) -> dict[str, float]:
        """Return the figures of answers (rows, elements): accuracy; or rms, bias and resolution (the standard deviation)."""
        if self.classes is not None:
            return {"accuracy": float(np.mean(self.chosen(answers) == self.classes))}
        off = answers - self.values
        return {"rms": float(np.sqrt(np.mean(off**2))), "bias": float(off.mean()), "resolution": float(off.std())}


#: what the figures mean, in words
MEANING = {
    "accuracy": "share of rows whose class is the label's",
    "rms": "root mean square of answer - label",
    "bias": "mean of answer - label",
    "resolution": "standard deviation of answer - label",
}


def read_labels(file: Path, outputs: Row, rows: int, trained: tuple[Numbers, ...]) -> tuple[Labels, ...]:
    """Read the labels of a .npy, for the only output, or of a .npz by the outputs' names (an output may be left out).

    Integers (rows,) from 0, or one-hot rows, are classes; other numbers, one for each element of the output, are true values.

    Args:
        trained: the trained model's answers, which say whether a single output is a probability or a logit.

    Raises:
        RowsError: For labels that do not fit.
        OSError: For a file that cannot be opened.
    """
    arrays = read_arrays(file)
    names = [tensor.name for tensor in outputs.tensors]
    if len(names) == 1 and len(arrays) == 1:
        arrays = {names[0]: next(iter(arrays.values()))}
    known = {name: array for name, array in arrays.items() if name in names}
    if not known:
        held = ", ".join(name or "one array without a name" for name in arrays)
        raise RowsError(f"{file} holds {held}, expected labels of {', '.join(names)}, by these names in a .npz")
    return tuple(_labels(file, names.index(name), name, array, rows, trained) for name, array in known.items())


def _labels(file: Path, place: int, name: str, array: NDArray[Any], rows: int, trained: tuple[Numbers, ...]) -> Labels:
    answers, size = trained[place], trained[place].shape[1]
    where = f"{file}: labels of {name}"
    if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        raise RowsError(f"{where} have dtype {array.dtype} or are not finite, expected real numbers or integers")
    values = np.asarray(array, np.float64).reshape(len(array), -1) if array.ndim else np.zeros((0, 0))
    if len(values) != rows or values.shape[1] not in (1, size):
        wanted = f"({rows},)" if size == 1 else f"({rows},) for classes, or ({rows}, {size})"
        raise RowsError(f"{where} have shape {array.shape}, expected {wanted}, one for each row")
    whole = bool((values == np.rint(values)).all())
    if values.shape[1] == 1 and size > 1:
        if not whole or values.min() < 0 or values.max() >= size:
            raise RowsError(
                f"{where} run from {values.min():g} to {values.max():g}, expected classes, integers from 0 to {size - 1}"
            )
        return Labels(place, name, values, values[:, 0].astype(np.int64))
    if size > 1 and whole and (values.sum(axis=1) == 1).all() and values.min() >= 0:
        return Labels(place, name, values, values.argmax(axis=1))
    if size == 1 and set(np.unique(values)) == {0.0, 1.0}:
        logits = bool(answers.min() < 0 or answers.max() > 1)
        return Labels(place, name, values, values[:, 0].astype(np.int64), 0.0 if logits else 0.5)
    return Labels(place, name, values)


def table(labels: tuple[Labels, ...], engines: Mapping[str, tuple[Numbers, ...]]) -> list[tuple[str, dict[str, float], str]]:
    """Return the figures: (name, value by engine, meaning), with the output's name before it where several have labels."""
    lines = []
    for each in labels:
        figures = {engine: each.figures(answers[each.output]) for engine, answers in engines.items()}
        prefix = f"{each.name}: " if len(labels) > 1 else ""
        kinds = list(next(iter(figures.values())))
        lines += [(f"{prefix}{kind}", {engine: figures[engine][kind] for engine in engines}, MEANING[kind]) for kind in kinds]
    return lines
