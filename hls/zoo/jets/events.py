# SPDX-License-Identifier: Apache-2.0
"""Toy jets as rows of observables, for training, gate and figure of merit. Only numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.zoo.jets import observables, shower

HELD_OUT_SEED = 9_000  # results are quoted on jets of this seed and above, which are not trained on

#: type in the fabric of the observables, which are shifted to about unit width: steps of 2**-11
INPUT = FixedPoint(16, 5, rounding=Rounding.RND_CONV, overflow=Overflow.SAT)
#: network input = observable * 2**exponent
INPUT_EXPONENTS = (0, 3, 4, 5, 4, 5, 0, 0, 0, 3, 4, 5, 3, 3, -5, -4)


@dataclass(frozen=True)
class Jets:
    """Jets, with their observables and classes.

    Attributes:
        rows: (n, 16) float32 in the order of observables.OBSERVABLES.
        label: (n,) int64, index into shower.CLASSES.
    """

    rows: NDArray[np.float32]
    label: NDArray[np.int64]


def jets(count: int, seed: int) -> Jets:
    """Generate `count` jets, whose classes take turns; the same seed gives the same bytes."""
    generated = shower.generate(count, seed)
    return Jets(observables.observables(generated), generated.label)


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (2000, 16) on which a conversion is compared with its network."""
    return jets(2000, HELD_OUT_SEED + 500).rows


def network_inputs(rows: ArrayLike) -> NDArray[np.float32]:
    """Return the network inputs (n, 16) for rows (n, 16) in wire units: shifted and rounded to the fabric's input type."""
    shifted = np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS))
    return INPUT.to_float(INPUT.from_float(shifted)).astype(np.float32)
