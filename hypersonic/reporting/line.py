# SPDX-License-Identifier: Apache-2.0
"""A model's line in the table of `hypersonic report`, and the numbers in its picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.estimate.rates import CardRate
from hypersonic.hls.tune.labels import Labels


@dataclass(frozen=True)
class CoreReport:
    """The figures of a Verilated core.

    Attributes:
        core: its kind.
        ii, latency: clocks.
        equal: the number of compared integers, all equal to csim's.
        clocks, predicted: the clocks of rtl_rows rows, measured and by the core's plan.
        rtl_us: CPU microseconds per row.
        rate: predicted on a card.
    """

    core: str
    ii: int
    latency: int
    multipliers: int
    equal: int
    rtl_rows: int
    clocks: int
    predicted: int
    rtl_us: float
    rate: CardRate


@dataclass(frozen=True)
class ModelReport:
    """One model's line.

    Attributes:
        parameters: their number; -1 if unknown.
        figure: the name of the figure of merit.
        merit: its value for each engine, on the same rows; None if there is no such engine or no figure.
        difference: the largest difference of csim from the model file's answers, of any output, in its units on the wire.
        csim_us: CPU microseconds per row.
        core: None for a model that is too large to simulate.
    """

    model: str
    parameters: int
    figure: str
    rows: int
    merit: dict[str, float | None]
    difference: float
    csim_us: float
    core: CoreReport | None

    def figures(self) -> dict[str, Any]:
        """Return all figures by name, the core's among the model's; "core" is None if there is no core."""
        values = asdict(self)
        if self.core:
            values["core"]["rate"] = self.core.rate.as_data()
            return {**values, **values["core"]}
        return values


@dataclass(frozen=True)
class OwnAnswers:
    """Answers to a user's rows, (rows, elements) for each output, and the labels, for the picture."""

    csim: tuple[NDArray[np.float64], ...]
    trained: tuple[NDArray[np.float64], ...]
    labels: tuple[Labels, ...]


@dataclass(frozen=True)
class Answers:
    """A model's line, and the answers of each engine for the same rows, float64 (rows, all outputs), for the picture.

    Attributes:
        lines: below the table.
        own: of a user's model: what its picture shows.
    """

    report: ModelReport
    numbers: dict[str, NDArray[np.float64]]
    lines: tuple[str, ...] = ()
    own: OwnAnswers | None = None
