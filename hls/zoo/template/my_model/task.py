# SPDX-License-Identifier: Apache-2.0
"""How `hypersonic infer` and `hypersonic report` generate rows for the model and judge its outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.task import Outputs, Sample, Task
from hypersonic.hls.zoo.template.my_model.events import HELD_OUT_SEED, generate
from hypersonic.hls.zoo.template.my_model.report import relative_width


def _sample(rows: int, seed: int) -> Sample:
    generated = generate(rows, HELD_OUT_SEED + seed)
    return Sample((generated.samples,), generated.height)


def _width(outputs: Outputs, height: NDArray[np.float32]) -> float:
    return relative_width(outputs[0], height)


TASK = Task(_sample, "68 % width of height / true height", _width, rows=2_000, rtl_rows=200)
