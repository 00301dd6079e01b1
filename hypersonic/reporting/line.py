# SPDX-License-Identifier: Apache-2.0
"""A model's line of `hypersonic report`, and the numbers behind it that its picture shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.estimate.rates import CardRate


@dataclass(frozen=True)
class CoreReport:
    """What the Verilated core did. equal: its integers equal to csim's, all that were compared. clocks, predicted: of rtl_rows
    rows, measured and by its plan. rtl_us: CPU microseconds a row."""

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
    """One model's line. merit: the task's figure for each engine on the rows that all four saw; None: there is no such engine,
    or no figure.

    difference: the largest |csim - model file| of any output, in its units on the wire. csim_us: CPU microseconds a row. core:
    None where the model is too large for a Verilated one.
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
        """All of it by name, the core's beside the model's; `core` is null where there is none."""
        values = asdict(self)
        if self.core:
            values["core"]["rate"] = self.core.rate.as_data()
            return {**values, **values["core"]}
        return values


@dataclass(frozen=True)
class Answers:
    """What the pictures show: the numbers of each engine for the same rows, (rows, all outputs) float64."""

    report: ModelReport
    numbers: dict[str, NDArray[np.float64]]
