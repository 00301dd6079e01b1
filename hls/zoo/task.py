# SPDX-License-Identifier: Apache-2.0
"""How a zoo model is judged: a generator of rows and one figure of merit, computed alike for the outputs of every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.closeness.difference import merit_warning
from hypersonic.hls.near import did_you_mean
from hypersonic.hls.sources import source_files

#: one array (rows, size) per input: float32 in wire units, or uint8 for packed rows
Inputs = tuple[NDArray[Any], ...]
#: one float64 array (rows, size) per output, in wire units
Outputs = tuple[NDArray[np.float64], ...]


class NoTaskError(ValueError):
    """The zoo has no generator for this model; the message lists the models that have one."""


@dataclass(frozen=True)
class Sample:
    """Generated rows and their true values.

    Attributes:
        truth: the second argument of the task's `measure`; its type is the model's own.
    """

    inputs: Inputs
    truth: Any = None

    @property
    def rows(self) -> int:
        """Number of rows, the same in every input."""
        return len(self.inputs[0])


@dataclass(frozen=True)
class Task:
    """A model's generator, its figure of merit, and how many rows the commands use.

    Attributes:
        sample: (rows, seed) -> Sample with about that many rows.
        figure: name and unit of the figure of merit.
        measure: (outputs, truth) -> figure; None for a model that is not trained, in which case `figure` says so.
        float_predict: the network before quantisation; None if the model file itself holds that network.
        rows: rows that `hypersonic report` gives to csim.
        rtl_rows: how many of them also run in the Verilated core; 0 if the model has no core.
        event_rows: rows in one request of `hypersonic infer`.
        given: the number of rows if they are a user's, which are used once each, instead of generated ones.
        larger_is_better: of two values of the figure.
    """

    sample: Callable[[int, int], Sample]
    figure: str
    measure: Callable[[Outputs, Any], float] | None
    float_predict: Callable[[Inputs], Outputs] | None = None
    rows: int = 2000
    rtl_rows: int = 200
    event_rows: int = 16
    given: int = 0
    larger_is_better: bool = True

    def warning(self, got: float | None, trained: float | None) -> str:
        """Return a sentence if the figure `got` is worse than the trained model's by more than a tenth; "" otherwise."""
        return merit_warning(self.figure, got, trained, larger_is_better=self.larger_is_better)

    def measured(self, outputs: Outputs, truth: Any) -> float | None:
        """Return the figure of merit of `outputs`, or None for a model without one."""
        return self.measure(outputs, truth) if self.measure else None


def held_out(
    generate: Callable[[int, int], Any], first: int, truth: str, inputs: Sequence[str] = ("rows",)
) -> Callable[[int, int], Sample]:
    """Return a task's `sample`: rows of generate(rows, first + seed), flattened as on the wire.

    Args:
        first: the first seed that is not trained on.
        truth, inputs: names of the fields of what is generated.
    """

    def sample(rows: int, seed: int) -> Sample:
        made = generate(rows, first + seed)
        arrays = (np.asarray(getattr(made, name), np.float32) for name in inputs)
        return Sample(tuple(array.reshape(len(array), -1) for array in arrays), getattr(made, truth))

    return sample


def accuracy(outputs: Outputs, kind: NDArray[np.int64]) -> float:
    """Return the fraction of rows whose largest number in the first output is that of the true kind."""
    return float(np.mean(outputs[0].argmax(axis=1) == kind))


def task_of(model: str) -> Task:
    """Return TASK of hls/zoo/<model>/task.py. Raises NoTaskError if the model has no task or TASK is not a Task."""
    if model not in tasks():
        known = ", ".join(tasks())
        raise NoTaskError(f"no generator for model {model!r}; the zoo has one for: {known}{did_you_mean(model, tasks())}")
    task = import_module(f"{__package__}.{model}.task").TASK
    if not isinstance(task, Task):
        raise NoTaskError(f"the task of {model} is {type(task).__name__}, expected Task")
    return task


def tasks() -> tuple[str, ...]:
    """Return the names of the zoo models that have a task, sorted."""
    from hypersonic.hls.frontend.description import ZOO

    return tuple(sorted(file.parent.name for file in source_files(ZOO, "*/task.py")))
