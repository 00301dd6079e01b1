# SPDX-License-Identifier: Apache-2.0
"""A fast approximation of plan() for the search: no weights, and windows are not simulated beat by beat.

Stages, lanes and clocks are those of plan(), because the same code of the layers plans them. Only the lines of windows and the
depths of FIFOs in front of joins are estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hypersonic.hls.network.base import Network
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.raw import signed_width
from hypersonic.hls.rf.fifos import with_depth
from hypersonic.hls.rf.plan import WHOLE_ROW_BITS, build
from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.rf.timing import offered, row_interval


def weight_widths(network: Network) -> dict[str, int]:
    """Return layer name -> bits of the narrowest type for its weights. It reads every weight, so call it once per search."""
    return {layer.name: signed_width(layer.weight.raw) for layer in network.layers if isinstance(layer, Dense)}


def sketch(
    network: Network, widths: Mapping[str, int], whole_row_bits: int = WHOLE_ROW_BITS, cuts: Sequence[str] = ()
) -> Pipeline:
    """Return the approximate pipeline, whose weight memories hold zeros. Raises UnsupportedLayerError.

    Args:
        widths: weight_widths of the network.
        cuts: of a core over several dies, as in DiePlan.
    """
    return _with_fifos(build(network, whole_row_bits, widths, cuts))


@dataclass(frozen=True)
class Span:
    """The clocks at which a row's first and last beats can be accepted; the beats between are assumed to be evenly spaced."""

    first: float
    last: float

    def at(self, beat: int, beats: int) -> float:
        """Return the clock at which beat number `beat` of `beats` can be accepted."""
        return self.first + (self.last - self.first) * beat / max(beats - 1, 1)


def spans(pipeline: Pipeline) -> dict[str, Span]:
    """Return stream name -> Span of one row, computed from the first and last beat of each stage."""
    known = {name: Span(float(beats[0]), float(beats[-1])) for name, beats in offered(pipeline).items()}
    for stage in pipeline.stages:
        departures = _departures(stage, known)
        for stream in stage.outputs:
            known[stream.name] = departures
    return known


def _departures(stage: Stage, known: Mapping[str, Span]) -> Span:
    timing, beats = stage.timing, stage.outputs[0].beats
    ends = [0.0, 0.0]
    for stream, needs in zip(stage.inputs, timing.needs, strict=True):
        for end in (0, -1):
            if needs[end] >= 0:
                ends[end] = max(ends[end], known[stream.name].at(int(needs[end]), stream.beats))
    first, last = (end + timing.latency for end in ends)
    return Span(first, max(last, first + (beats - 1) * timing.gap))


def _with_fifos(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with FIFO depths estimated from spans; plan() considers every beat."""
    known, interval = spans(pipeline), row_interval(pipeline)
    depths: dict[str, int] = {}
    for join in pipeline.stages:
        if len(join.inputs) == 2:
            depths |= {stream.name: _depth(join, mine, known, interval) for mine, stream in enumerate(join.inputs)}
    return replace(
        pipeline,
        stages=tuple(
            with_depth(stage, depths[name]) if (name := stage.outputs[0].name) in depths else stage for stage in pipeline.stages
        ),
    )


def _depth(join: Stage, mine: int, known: Mapping[str, Span], interval: int) -> int:
    stream, y, needs = join.inputs[mine], join.outputs[0], join.timing.needs[mine]
    entered, left, beats = known[stream.name], known[y.name], stream.beats
    delay = 0.0
    for beat in (0, beats - 1):
        taken = left.at(int(np.searchsorted(needs, beat)), y.beats) - join.timing.latency
        delay = max(delay, taken - entered.at(beat, beats))
    rows, rest = divmod(delay, interval)
    pace = max(1.0, (entered.last - entered.first) / max(beats - 1, 1))
    return 1 << max(1, int(rows * beats + min(beats, rest / pace + 1)).bit_length())
