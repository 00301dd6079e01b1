# SPDX-License-Identifier: Apache-2.0
"""The top tagger's figure of merit: the area under its ROC curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets.report import area_under_curve
from hypersonic.hls.zoo.task import Outputs, Sample, Task
from hypersonic.hls.zoo.toptag import events


def area(outputs: Outputs, top: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of top quarks against other jets."""
    return area_under_curve(outputs[0].reshape(-1), top == 1)


def sample(rows: int, seed: int) -> Sample:
    """Return jets that are not in the training sample."""
    generated = events.jets(rows, events.HELD_OUT_SEED + seed)
    return Sample((generated.rows.reshape(len(generated.top), -1),), generated.top)


TASK = Task(sample, "AUC of top quarks", area, rows=3_000, rtl_rows=300)
