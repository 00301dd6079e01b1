# SPDX-License-Identifier: Apache-2.0
"""The pipeline that plan() would make, without its weights and without measuring windows beat by beat: for searching.

Stages, lanes and clocks are plan()'s own, because the same layers plan them. What is estimated here: lines of a window, and
depths of FIFOs in front of joins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hypersonic.hls.rf.fifos import with_depth
from hypersonic.hls.rf.layers import RfNetwork
from hypersonic.hls.rf.parts.casts import signed_width
from hypersonic.hls.rf.plan import WHOLE_ROW_BITS, build
from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.rf.stages.dense import Dense
from hypersonic.hls.rf.timing import offered, row_interval


def weight_widths(network: RfNetwork) -> dict[str, int]:
    """Layer name -> bits of its narrowest weights. Looks at every number, so do it once for a search."""
    return {layer.name: signed_width(layer.weight.raw) for layer in network.layers if isinstance(layer, Dense)}


def sketch(network: RfNetwork, widths: Mapping[str, int], whole_row_bits: int = WHOLE_ROW_BITS) -> Pipeline:
    """widths: weight_widths of the network. Words of weight memories are all zero. Raises UnsupportedLayerError."""
    return _with_fifos(build(network, whole_row_bits, widths))


@dataclass(frozen=True)
class Span:
    """When a row's first and last beat can be taken; those between are taken to come evenly."""

    first: float
    last: float

    def at(self, beat: int, beats: int) -> float:
        return self.first + (self.last - self.first) * beat / max(beats - 1, 1)


def spans(pipeline: Pipeline) -> dict[str, Span]:
    """Stream name -> its beats' times in one row, by each stage's first and last beat alone."""
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
    """Joins' FIFOs as deep as the clocks say; plan() looks at every beat."""
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
