# SPDX-License-Identifier: Apache-2.0
"""One run of the test kernel, y = 2 x[0] + x[1]."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from hypersonic.host.instance import Slot


def run(slot: Slot, rows: int = 16) -> None:
    """One run, its answers checked."""
    x = np.random.default_rng(rows).integers(-1000, 1000, (rows, 18)).astype("<f4")
    slot.x.view("<f4")[: x.size] = x.reshape(-1)
    slot.start(rows)
    slot.finish(5000)
    assert_array_equal(slot.y.view("<f4")[:rows], 2 * x[:, 0] + x[:, 1])
