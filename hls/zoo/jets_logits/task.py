# SPDX-License-Identifier: Apache-2.0
"""The jet tagger without softmax: the same figure of merit, after a softmax on the client's side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets import task
from hypersonic.hls.zoo.jets.report import float_logits, softmax
from hypersonic.hls.zoo.task import Inputs, Outputs


def _mean_auc(outputs: Outputs, label: NDArray[np.int64]) -> float:
    return task.mean_auc((softmax(outputs[0]),), label)


def _float(inputs: Inputs) -> Outputs:
    return (float_logits(inputs[0]),)


TASK = replace(task.TASK, measure=_mean_auc, float_predict=_float)
