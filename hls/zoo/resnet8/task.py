# SPDX-License-Identifier: Apache-2.0
"""ResNet-8's figure: how many images get their own kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.resnet8.events import HELD_OUT_SEED, generate
from hypersonic.hls.zoo.task import Outputs, Sample, Task


def accuracy(outputs: Outputs, kind: NDArray[np.int64]) -> float:
    """The fraction of images whose greatest probability is their kind's."""
    return float(np.mean(outputs[0].argmax(axis=1) == kind))


def sample(rows: int, seed: int) -> Sample:
    """Images that no training saw."""
    generated = generate(rows, HELD_OUT_SEED + seed)
    return Sample((generated.pixel.reshape(rows, -1).astype(np.float32),), generated.kind)


TASK = Task(sample, "accuracy over ten kinds", accuracy, rows=1_000, rtl_rows=100)
