# SPDX-License-Identifier: Apache-2.0
"""Jets as rows: what the tagger is trained, gated and judged on. numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.zoo.jets import observables, shower

HELD_OUT_SEED = 9_000  # figures are made on jets of this seed and above, never trained on

#: inside the fabric: observables shifted to about unit width, in steps of 2**-11 of it
INPUT = FixedPoint(16, 5, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)
#: network's input = observable * 2**exponent
INPUT_EXPONENTS = (0, 3, 4, 5, 4, 5, 0, 0, 0, 3, 4, 5, 3, 3, -5, -4)


@dataclass(frozen=True)
class Jets:
    """rows: (n, 16) float32 in the order of observables.OBSERVABLES; label: (n,) int64, index into shower.CLASSES."""

    rows: NDArray[np.float32]
    label: NDArray[np.int64]


def jets(count: int, seed: int) -> Jets:
    """`count` toy jets, the classes in turn; the same seed gives the same bytes."""
    generated = shower.generate(count, seed)
    return Jets(observables.observables(generated), generated.label)


def gate_rows() -> NDArray[np.float32]:
    """Rows (2000, 16) on which a conversion is compared with its network."""
    return jets(2000, HELD_OUT_SEED + 500).rows


def network_inputs(rows: ArrayLike) -> NDArray[np.float32]:
    """Rows (n, 16) as on the wire -> what the network sees: shifted, on the grid of the fabric's input type."""
    shifted = np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS))
    return INPUT.to_float(INPUT.from_float(shifted)).astype(np.float32)
