# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId's figure of merit: the fraction of patches that are classified correctly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.emtrk.events import generate
from hypersonic.hls.zoo.task import Outputs, Sample, Task

_HELD_OUT_SEED = 9_100


def accuracy(outputs: Outputs, kind: NDArray[np.int64]) -> float:
    """Return the fraction of patches whose most probable kind (track, shower, nothing) is the true one."""
    return float(np.mean(outputs[0].argmax(axis=1) == kind))


def _sample(rows: int, seed: int) -> Sample:
    generated = generate(rows, _HELD_OUT_SEED + seed)
    return Sample((generated.image.reshape(rows, -1),), generated.kind)


TASK = Task(_sample, "accuracy over three kinds", accuracy, rows=300, rtl_rows=12, event_rows=235)
