# SPDX-License-Identifier: Apache-2.0
"""The jet tagger's figure of merit: the mean area under the classes' ROC curves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets.events import HELD_OUT_SEED, jets
from hypersonic.hls.zoo.jets.report import float_predict, tagging
from hypersonic.hls.zoo.task import Inputs, Outputs, Task, held_out


def mean_auc(outputs: Outputs, label: NDArray[np.int64]) -> float:
    """Return the mean area under the ROC curves of the five classes, each against all others."""
    return float(np.mean(tagging({"": outputs[0]}, label)[0].auc))


def _float(inputs: Inputs) -> Outputs:
    return (float_predict(inputs[0]),)


TASK = Task(held_out(jets, HELD_OUT_SEED, "label"), "mean AUC of five classes", mean_auc, _float, rows=6_000, rtl_rows=6_000)
