# SPDX-License-Identifier: Apache-2.0
"""ResNet-8's figure of merit: the fraction of images that are classified correctly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.resnet8.events import HELD_OUT_SEED, generate
from hypersonic.hls.zoo.task import Outputs, Sample, Task


def accuracy(outputs: Outputs, kind: NDArray[np.int64]) -> float:
    """Return the fraction of images whose most probable kind is the true one."""
    return float(np.mean(outputs[0].argmax(axis=1) == kind))


def sample(rows: int, seed: int) -> Sample:
    """Return images that are not in the training sample, flattened (rows, 3072)."""
    generated = generate(rows, HELD_OUT_SEED + seed)
    return Sample((generated.pixel.reshape(rows, -1).astype(np.float32),), generated.kind)


TASK = Task(sample, "accuracy over ten kinds", accuracy, rows=1_000, rtl_rows=100)
