# SPDX-License-Identifier: Apache-2.0
"""Streams of weights that a core takes at run time from the card's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypersonic.hls.errors import ProjectError

#: bits of a beat of a weight stream: the width of the card's AXI data bus
WEIGHT_BITS = 512
#: clocks for which a kernel holds its core in reset before it loads other weights (firmware/rtl/kernel_weights.sv)
RESET_CLOCKS = 16
#: beats that a kernel requests ahead for a stream that repeats (firmware/rtl/kernel_read.sv)
_AHEAD_BEATS = 512


@dataclass(frozen=True)
class WeightStream:
    """The part of the weights file that one weight stream takes: `beats` beats of WEIGHT_BITS, the first being beat `first`.

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


def swap_clocks(streams: Sequence[WeightStream]) -> int:
    """Return the clocks by which a run takes longer if the run before it had other weights; 0 without streams.

    These are the core's reset and a clock for each beat that is loaded once; the latency of the card's memory is that of the
    run's rows, which are read at the same time. Exact for memory that gives a beat every clock. With streams that repeat it is
    an upper bound: what was requested ahead of the old ones is dropped, and of the new ones arrives between the loaded beats.
    """
    if not streams:
        return 0
    repeated = sum(stream.repeats for stream in streams)
    return RESET_CLOCKS + sum(stream.beats for stream in streams if not stream.repeats) + 2 * _AHEAD_BEATS * repeated
