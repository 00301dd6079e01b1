# SPDX-License-Identifier: Apache-2.0
"""The weights that a core takes at run time, in streams of beats as wide as a card's memory has them."""

from __future__ import annotations

from dataclasses import dataclass

from hypersonic.hls.errors import ProjectError

#: bits of a beat of a weight stream, a card's AXI beat
WEIGHT_BITS = 512


@dataclass(frozen=True)
class WeightStream:
    """What one weight stream of a core takes of the weights' file: `beats` beats of WEIGHT_BITS from `first` on, once after
    a reset, or over and over where it repeats."""

    first: int
    beats: int
    repeats: bool

    def __post_init__(self) -> None:
        if self.first < 0 or self.beats < 1:
            raise ProjectError(
                f"a weight stream has {self.beats} beats from {self.first} on, expected 1 or more from 0 or more"
            )
