# SPDX-License-Identifier: Apache-2.0
"""FACILE v2's figure of merit: the same as FACILE's, on the same channels."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.zoo.facile.geometry import CHANNELS
from hypersonic.hls.zoo.facile.task import resolution, thinned
from hypersonic.hls.zoo.facile_v2.events import rows_of
from hypersonic.hls.zoo.facile_v2.report import float_predict
from hypersonic.hls.zoo.task import Inputs, Outputs, Sample, Task


def _sample(rows: int, seed: int) -> Sample:
    generated, kept = thinned(rows, seed)
    return Sample((np.ascontiguousarray(rows_of(generated)[kept]),), generated.energy[kept])


def _float(inputs: Inputs) -> Outputs:
    return (float_predict(inputs[0]).reshape(-1, 1),)


TASK = Task(
    _sample, "sigma68 of E / E true above 5 GeV", resolution, _float, rows=16_000, rtl_rows=4_000, event_rows=CHANNELS,
    larger_is_better=False,
)  # fmt: skip
