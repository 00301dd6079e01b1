# SPDX-License-Identifier: Apache-2.0
"""The channels of HB and HE after the Phase-1 upgrade, and the calibration channels that are read out with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CHANNELS = 16_000
DETECTOR_CHANNELS = 15_696  # HB 9 072 + HE 6 624

#: |ieta| -> (first depth, last depth), CMS Phase-1 segmentation
HB_DEPTHS = dict.fromkeys(range(1, 16), (1, 4)) | {16: (1, 3)}
HE_DEPTHS = (
    {16: (4, 4), 17: (2, 3), 18: (2, 5), 19: (1, 6), 20: (1, 6)}
    | dict.fromkeys(range(21, 26), (1, 6))
    | dict.fromkeys(range(26, 29), (1, 7))
    | {29: (1, 3)}
)
FIRST_WIDE_IETA = 21  # from this ring on, towers are two iphi wide and numbered 1, 3, 5, ...


@dataclass(frozen=True)
class Geometry:
    """Positions of the channels, each array (CHANNELS,).

    Attributes:
        ieta: -29 to 29.
        iphi: 1 to 72.
        depth: 0 to 7.
        eta, phi: centre of the tower.
        connected: the channel sees scintillator. The last 304 channels are calibration channels (dark fibres for pedestal and
            dark counts): ieta 0, depth 0, all one-hot depth inputs 0, never any energy. They fill the event up to the 16 000
            rows that FACILE has always been run with.
    """

    ieta: NDArray[np.int64]
    iphi: NDArray[np.int64]
    depth: NDArray[np.int64]
    eta: NDArray[np.float64]
    phi: NDArray[np.float64]
    connected: NDArray[np.bool_]


def _detector() -> list[tuple[int, int, int]]:
    towers = [(ieta, depths) for table in (HB_DEPTHS, HE_DEPTHS) for ieta, depths in table.items()]
    return [
        (side * ieta, iphi, depth)
        for ieta, (first, last) in towers
        for side in (-1, 1)
        for depth in range(first, last + 1)
        for iphi in range(1, 73, 2 if ieta >= FIRST_WIDE_IETA else 1)
    ]


@lru_cache(maxsize=1)
def geometry() -> Geometry:
    """Return the channels in the order of an event's rows."""
    spare = [(0, 1 + i % 72, 0) for i in range(CHANNELS - DETECTOR_CHANNELS)]
    ieta, iphi, depth = np.array(_detector() + spare, dtype=np.int64).T
    wide = np.abs(ieta) >= FIRST_WIDE_IETA
    eta = np.sign(ieta) * _ETA_CENTRE[np.abs(ieta)]
    phi = (iphi - 0.5 + 0.5 * wide) * (2 * np.pi / 72)
    return Geometry(ieta, iphi, depth, eta, phi, depth > 0)


#: pseudorapidity of tower centres by |ieta|: towers are 0.087 wide up to |ieta| 20, then as wide as the HE megatiles
_ETA_EDGES = np.array([1.74, 1.83, 1.93, 2.043, 2.172, 2.322, 2.5, 2.65, 2.868, 3.0])
_ETA_CENTRE = np.concatenate([[0.0], 0.087 * (np.arange(1, 21) - 0.5), (_ETA_EDGES[:-1] + _ETA_EDGES[1:]) / 2])
