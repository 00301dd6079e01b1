# SPDX-License-Identifier: Apache-2.0
"""The transformer's figure of merit: the mean area under the classes' ROC curves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets.report import softmax, tagging
from hypersonic.hls.zoo.jets_transformer.events import HELD_OUT_SEED, jets
from hypersonic.hls.zoo.task import Outputs, Sample, Task


def mean_auc(outputs: Outputs, label: NDArray[np.int64]) -> float:
    """Return the mean area under the ROC curves of the five classes, each against all others."""
    return float(np.mean(tagging({"": softmax(outputs[0])}, label)[0].auc))


def sample(rows: int, seed: int) -> Sample:
    """Return jets that are not in the training sample."""
    generated = jets(rows, HELD_OUT_SEED + seed)
    return Sample((generated.rows.reshape(rows, -1),), generated.label)


TASK = Task(sample, "mean AUC of five classes", mean_auc, rows=4_000, rtl_rows=2_000)
