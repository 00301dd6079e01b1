# SPDX-License-Identifier: Apache-2.0
"""The autoencoder's figure of merit: how well its score separates the signals from ordinary events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.anomaly import events
from hypersonic.hls.zoo.jets.report import area_under_curve
from hypersonic.hls.zoo.task import Outputs, Task, held_out


def areas(outputs: Outputs, kind: NDArray[np.int64]) -> tuple[float, ...]:
    """Return the area under the ROC curve of each of events.SIGNALS against ordinary events."""
    score = outputs[0].reshape(-1)
    ordinary = kind == 0
    return tuple(
        area_under_curve(score[ordinary | (kind == i)], kind[ordinary | (kind == i)] == i) for i in range(1, len(events.KINDS))
    )


def mean_area(outputs: Outputs, kind: NDArray[np.int64]) -> float:
    """Return the mean of `areas`."""
    return float(np.mean(areas(outputs, kind)))


TASK = Task(
    held_out(events.mixture, events.HELD_OUT_SEED, "kind"), "mean AUC of three signals", mean_area, rows=6_000, rtl_rows=6_000
)
