# SPDX-License-Identifier: Apache-2.0
"""The jet tagger without softmax, judged behind the softmax that its client computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets import task
from hypersonic.hls.zoo.jets.report import float_predict
from hypersonic.hls.zoo.task import Inputs, Outputs


def _mean_auc(outputs: Outputs, label: NDArray[np.int64]) -> float:
    grown = np.exp(outputs[0] - outputs[0].max(axis=1, keepdims=True))
    return task.mean_auc((grown / grown.sum(axis=1, keepdims=True),), label)


def _float(inputs: Inputs) -> Outputs:
    """Logits up to what all of a jet's have in common."""
    return (np.log(float_predict(inputs[0])),)


TASK = replace(task.TASK, measure=_mean_auc, float_predict=_float)
