# SPDX-License-Identifier: Apache-2.0
"""FACILE's events (hypersonic.hls.zoo.facile.events) in the layout of `facile_all_v2`, the network of the GPU studies.

A row is one channel, 47 FP32 in the order of FEATURES: iphi, gain (GeV/fC), 8 time-slice charges (fC), depth one-hot 1 to 7,
|ieta| one-hot 0 to 29 (|ieta| 0 stands for a calibration channel; it does not occur in the detector).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.facile import events
from hypersonic.hls.zoo.facile.events import FIRST_CHARGE, FIRST_DEPTH, SLICES, Events

_LAST_IETA = 29
FEATURES = (
    *("iphi", "gain"),
    *(f"charge{i}_fc" for i in range(SLICES)),
    *(f"depth{d}" for d in range(1, 8)),
    *(f"abs_ieta{i}" for i in range(_LAST_IETA + 1)),
)
#: network input = wire value * 2**exponent, which keeps every feature within +-2
INPUT_EXPONENTS = (-6, 10, *([-18] * SLICES), *([0] * 37))


def rows_of(generated: Events) -> NDArray[np.float32]:
    """Return the events' rows (n, 18) in this network's layout (n, 47)."""
    rows = generated.rows
    ring = np.abs(rows[:, :1]) == np.arange(_LAST_IETA + 1, dtype=np.float32)
    return np.concatenate(
        [rows[:, 1:FIRST_CHARGE], rows[:, FIRST_CHARGE:FIRST_DEPTH], rows[:, FIRST_DEPTH:], ring], axis=1
    ).astype(np.float32)


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (2000, 47) on which a conversion is compared with its network: every 16th channel of two events."""
    both = (events.log_flat_events(1, 9001), events.physics_events(1, 9001))
    return np.ascontiguousarray(np.concatenate([rows_of(event)[::16] for event in both]))
