# SPDX-License-Identifier: Apache-2.0
"""The eight hardest particles of toy jets as rows. Only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.zoo.jets import constituents, shower
from hypersonic.hls.zoo.jets.events import HELD_OUT_SEED, Jets

PARTICLES = 8

#: type in the fabric of a particle's numbers, which are at most one: steps of 2**-11
INPUT = FixedPoint(13, 2, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)


def jets(count: int, seed: int) -> Jets:
    """Generate `count` jets, rows (n, 8, 3), whose classes take turns; the same seed gives the same bytes."""
    generated = shower.generate(count, seed)
    return Jets(constituents.particle_sets(generated, PARTICLES), generated.label)


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (1000, 24) on which a conversion is compared with its network."""
    return jets(1000, HELD_OUT_SEED + 500).rows.reshape(1000, -1)


def network_inputs(rows: ArrayLike) -> NDArray[np.float32]:
    """Return rows (n, 24) or (n, 8, 3) as the network's inputs (n, 8, 3), rounded to the fabric's input type."""
    shaped = np.asarray(rows, np.float64).reshape(-1, PARTICLES, len(constituents.SET_FEATURES))
    return INPUT.to_float(INPUT.from_float(shaped)).astype(np.float32)
