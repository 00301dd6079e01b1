# SPDX-License-Identifier: Apache-2.0
"""What a zoo model is judged by: its generator, and one figure of merit that every engine's answers are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.sources import source_files

#: (rows, size) float32 for each input, as on the wire
Inputs = tuple[NDArray[np.float32], ...]
#: (rows, size) float64 for each output, as on the wire
Outputs = tuple[NDArray[np.float64], ...]


class NoTaskError(ValueError):
    """There is no generator for this model: which there are."""


@dataclass(frozen=True)
class Sample:
    """Generated rows and what is known of them. truth: whatever the task's `measure` takes."""

    inputs: Inputs
    truth: Any = None

    @property
    def rows(self) -> int:
        return len(self.inputs[0])


@dataclass(frozen=True)
class Task:
    """sample: (rows, seed) -> Sample, of about so many rows. figure: what `measure` gives, in words and units.

    measure: None where nothing was trained and nothing can be measured; figure then says so. float_predict: the network before
    its numbers were quantised; None where the model file itself is that network. rows: how many the report asks csim for;
    rtl_rows: and of those the Verilated core, 0 where there is none. event_rows: of one request of `hypersonic infer`.
    """

    sample: Callable[[int, int], Sample]
    figure: str
    measure: Callable[[Outputs, Any], float] | None
    float_predict: Callable[[Inputs], Outputs] | None = None
    rows: int = 2000
    rtl_rows: int = 200
    event_rows: int = 16

    def measured(self, outputs: Outputs, truth: Any) -> float | None:
        """The figure of these answers; None where there is none."""
        return self.measure(outputs, truth) if self.measure else None


def task_of(model: str) -> Task:
    """hls/zoo/<model>/task.py's TASK. Raises NoTaskError."""
    if model not in tasks():
        raise NoTaskError(f"no generator for model {model!r}; the zoo has one for: {', '.join(tasks())}")
    task = import_module(f"{__package__}.{model}.task").TASK
    if not isinstance(task, Task):
        raise NoTaskError(f"the task of {model} is {type(task).__name__}, expected Task")
    return task


def tasks() -> tuple[str, ...]:
    """The zoo models that have one."""
    from hypersonic.hls.frontend.description import ZOO

    return tuple(sorted(file.parent.name for file in source_files(ZOO, "*/task.py")))
