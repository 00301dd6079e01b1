# SPDX-License-Identifier: Apache-2.0
"""Streams of weights that a core takes at run time from the card's memory."""

from __future__ import annotations

from dataclasses import dataclass

from hypersonic.hls.errors import ProjectError

#: bits of a beat of a weight stream: the width of the card's AXI data bus
WEIGHT_BITS = 512


@dataclass(frozen=True)
class WeightStream:
    """The part of the weights file that one weight stream takes: `beats` beats of WEIGHT_BITS, the first being beat `first`.

    Attributes:
        repeats: True if the part is streamed again and again; False if once after a reset. Raises ProjectError for an empty or
            negative range.
    """

    first: int
    beats: int
    repeats: bool

    def __post_init__(self) -> None:
        if self.first < 0 or self.beats < 1:
            raise ProjectError(
                f"a weight stream begins at beat {self.first} and has {self.beats} beats, expected 0 or more and 1 or more"
            )
