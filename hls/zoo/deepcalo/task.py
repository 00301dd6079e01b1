# SPDX-License-Identifier: Apache-2.0
"""DeepCalo's figure of merit: the width of reconstructed over true energy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.deepcalo.events import generate
from hypersonic.hls.zoo.facile.report import half_width68
from hypersonic.hls.zoo.task import Outputs, Task, held_out

#: above any seed that weights are drawn from
HELD_OUT_SEED = 9_100


def resolution(outputs: Outputs, energy: NDArray[np.float32]) -> float:
    """Return half the width of the central 68 % of reconstructed over true energy."""
    return half_width68(outputs[0].reshape(-1) / energy.reshape(-1))


TASK = Task(
    held_out(generate, HELD_OUT_SEED, "energy", ["em_barrel"]), "sigma68 of E / E true", resolution, rows=400, rtl_rows=12,
    event_rows=5, larger_is_better=False,
)  # fmt: skip
