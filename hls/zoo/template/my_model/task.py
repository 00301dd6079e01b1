# SPDX-License-Identifier: Apache-2.0
"""How `hypersonic infer` and `hypersonic report` generate rows for the model and judge its outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.task import Outputs, Task, held_out
from hypersonic.hls.zoo.template.my_model.events import HELD_OUT_SEED, generate


def relative_width(outputs: Outputs, height: NDArray[np.float32]) -> float:
    """Return half the width of the central 68 % of found over true height (n,)."""
    low, high = np.quantile(outputs[0].reshape(-1) / height.astype(np.float64), (0.16, 0.84))
    return float(high - low) / 2.0


_SAMPLE = held_out(generate, HELD_OUT_SEED, "height", ["samples"])

TASK = Task(_SAMPLE, "68 % width of height / true height", relative_width, rows=2_000, rtl_rows=200)
