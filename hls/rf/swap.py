# SPDX-License-Identifier: Apache-2.0
"""The clocks of a swap: how many more clocks a run takes if the run before it had other weights.

The core is held in reset, then it is loaded, stage after stage. Meanwhile the first row goes as far as it can: to the first
stage whose weights are missing, which keeps a vector if it has a buffer for one. So the delay is that of the row's result.

Weights are requested in bursts of PIECE_BEATS, two ahead. A burst takes a clock per beat, or half of the time from its request
to its last beat if that is longer: the memory's latency, the beats, and the clocks of the kernel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.rf.stage import Pipeline, Stage, feed_beats
from hypersonic.hls.rf.timing import offered
from hypersonic.hls.rf.top.crossing import REGISTERS
from hypersonic.hls.rf.top.weights import loaded, streamed

#: clocks of the core's reset (firmware/rtl/kernel_weights.sv)
RESET_CLOCKS = 16
#: the latency that is assumed of the card's memory, from an address to its first beat: that of the emulated card
READ_LATENCY_CLOCKS = 60
#: beats of a burst, and clocks of a burst in the kernel (firmware/rtl/kernel_read.sv)
PIECE_BEATS, _KERNEL_CLOCKS = 64, 10
#: beats that a kernel requests ahead for a stream that repeats
_AHEAD_BEATS = 512


def swap_clocks(pipeline: Pipeline, read_latency_clocks: int = READ_LATENCY_CLOCKS) -> int:
    """Return the clocks of a swap; 0 if all constants are in the hardware.

    With weights that are read for every vector it is an upper bound: old weights that were requested ahead are dropped, and
    new ones that are requested ahead arrive between those that are loaded.
    """
    chain, repeated = loaded(pipeline), len(streamed(pipeline))
    if not chain:
        return 0
    ends: dict[str, float] = {}
    beats = 0
    for stage, feed in chain:
        beats += feed_beats(feed)
        ends[stage.name] = _load_clocks(beats, read_latency_clocks) + _AHEAD_BEATS * repeated + REGISTERS * stage.die
    delay = _latency(pipeline, ends) - _latency(pipeline, {})
    return RESET_CLOCKS + _AHEAD_BEATS * repeated + round(delay)


def _load_clocks(beats: int, read_latency_clocks: int) -> float:
    """Return the clocks from the first beat to the last one."""
    piece = max(PIECE_BEATS, (read_latency_clocks + PIECE_BEATS + _KERNEL_CLOCKS) / 2)
    return beats + (beats // PIECE_BEATS) * (piece - PIECE_BEATS)


def _latency(pipeline: Pipeline, ends: dict[str, float]) -> float:
    """Return the clocks of a row's last result.

    Args:
        ends: stage name -> the clock at which its weights are there.
    """
    arrivals: dict[str, NDArray[np.float64]] = {name: beats.astype(float) for name, beats in offered(pipeline).items()}
    for stage in pipeline.stages:
        departed = _departures(stage, tuple(arrivals[stream.name] for stream in stage.inputs), ends.get(stage.name, 0.0))
        for stream in stage.outputs:
            arrivals[stream.name] = departed
    return float(max(arrivals[stream.name][-1] for stream in pipeline.outputs))


def _departures(stage: Stage, arrived: tuple[NDArray[np.float64], ...], ready: float) -> NDArray[np.float64]:
    timing, first = stage.timing, min(float(beats[0]) for beats in arrived)
    buffered = int(stage.parameters.get("N_OUT", 1)) > int(stage.parameters.get("Q", 1))
    if ready > first and not buffered:
        arrived = tuple(beats + (ready - first) for beats in arrived)
    waits = [np.where(need < 0, 0, beats[need]) for beats, need in zip(arrived, timing.needs, strict=True)]
    steps = np.arange(len(timing.needs[0]), dtype=float) * timing.gap
    begin = np.max(waits, axis=0) + timing.latency
    if ready > first and buffered:
        begin = np.maximum(begin, ready + timing.latency + timing.gap)
    departed: NDArray[np.float64] = np.maximum.accumulate(begin - steps) + steps
    return departed
