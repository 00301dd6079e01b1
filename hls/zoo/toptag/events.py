# SPDX-License-Identifier: Apache-2.0
"""The twenty hardest particles of toy jets as sequences. Only numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.zoo.jets import constituents, shower

HELD_OUT_SEED = 9_000  # results are quoted on jets of this seed and above, which are not trained on
PARTICLES = 20

#: type in the fabric of the particles' numbers, at most 8: steps of 2**-10
INPUT = FixedPoint(14, 4, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)


@dataclass(frozen=True)
class Jets:
    """Jets of top quarks and others.

    Attributes:
        rows: (n, 20, 6) float32, see constituents.sequences.
        top: (n,) int64, 1 for jets of top quarks.
    """

    rows: NDArray[np.float32]
    top: NDArray[np.int64]


def jets(count: int, seed: int) -> Jets:
    """Generate about `count` jets, one third of them top quarks, the others gluons and light quarks."""
    generated = shower.generate((count * len(shower.CLASSES) + 2) // 3, seed)
    kept = np.isin(generated.label, [shower.CLASSES.index(name) for name in ("gluon", "light quark", "top")])
    rows = constituents.sequences(generated, PARTICLES)[kept][:count]
    return Jets(rows, (generated.label[kept][:count] == shower.CLASSES.index("top")).astype(np.int64))


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (500, 120) on which a conversion is compared with its network."""
    return jets(500, HELD_OUT_SEED + 500).rows.reshape(500, -1)


def network_inputs(rows: ArrayLike) -> NDArray[np.float32]:
    """Return rows (n, 120) or (n, 20, 6) as the network's inputs (n, 20, 6), rounded to the fabric's input type."""
    shaped = np.asarray(rows, np.float64).reshape(-1, PARTICLES, len(constituents.SEQUENCE_FEATURES))
    return INPUT.to_float(INPUT.from_float(shaped)).astype(np.float32)
