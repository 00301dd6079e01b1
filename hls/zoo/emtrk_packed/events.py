# SPDX-License-Identifier: Apache-2.0
"""emtrk's patches as packed rows of 12-bit pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.packing.layout import Field, Packing
from hypersonic.hls.zoo.emtrk import events

#: the layout that emtrk_packed.yaml describes
PACKING = Packing((Field("pixel", 12, 48 * 48, signed=True, fraction=8),))


def packed(patches: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return patches (n, 2304) float32 as rows (n, 3456) uint8: each pixel is rounded to 1/256 and saturated at -8 and 8."""
    return PACKING.nearest(patches)


def packed_gate_rows() -> NDArray[np.uint8]:
    """Return the rows on which a conversion is compared with its network: emtrk's."""
    return packed(events.gate_rows())
