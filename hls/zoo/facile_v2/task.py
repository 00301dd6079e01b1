# SPDX-License-Identifier: Apache-2.0
"""FACILE v2's figure of merit: the same as FACILE's, on the same channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hypersonic.hls.zoo.facile import task
from hypersonic.hls.zoo.facile_v2.events import rows_of
from hypersonic.hls.zoo.facile_v2.report import float_predict
from hypersonic.hls.zoo.task import Inputs, Outputs, Sample


def _sample(rows: int, seed: int) -> Sample:
    generated, kept = task.thinned(rows, seed)
    return Sample((np.ascontiguousarray(rows_of(generated)[kept]),), generated.energy[kept])


def _float(inputs: Inputs) -> Outputs:
    return (float_predict(inputs[0]).reshape(-1, 1),)


TASK = replace(task.TASK, sample=_sample, float_predict=_float, rtl_rows=4_000)
