# SPDX-License-Identifier: Apache-2.0
"""The interaction network's figure of merit: the area under its ROC curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets.report import area_under_curve
from hypersonic.hls.zoo.showers import events
from hypersonic.hls.zoo.task import Outputs, Sample, Task


def area(outputs: Outputs, electron: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of electrons against pions."""
    return area_under_curve(outputs[0].reshape(-1), electron == 1)


def sample(rows: int, seed: int) -> Sample:
    """Return showers that are not in the training sample."""
    generated = events.showers(rows, events.HELD_OUT_SEED + seed)
    return Sample((generated.rows.reshape(len(generated.electron), -1),), generated.electron)


TASK = Task(sample, "AUC of electrons", area, rows=4_000, rtl_rows=4_000)
