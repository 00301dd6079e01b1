# SPDX-License-Identifier: Apache-2.0
"""FIFOs in front of joins, deep enough that two branches of one fork neither deadlock nor hold each other up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.rf.elements import fifo_stage
from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.rf.timing import clocks, common_fork, dependences, waiting

_Beats = dict[str, NDArray[np.int64]]


def with_fifos(pipeline: Pipeline) -> Pipeline:
    """The pipeline with its joins' FIFOs (stages axis_fifo, of any depth) at the depths they need."""
    timed = clocks(pipeline)
    stages = list(pipeline.stages)
    for join in pipeline.stages:
        if len(join.inputs) != 2:
            continue
        needed = dependences(pipeline, common_fork(pipeline, join))
        for stream in join.inputs:
            at = next(i for i, stage in enumerate(stages) if stream in stage.outputs)
            fifo = stages[at]
            depth = _depth(fifo, join, timed.arrivals, needed, timed.ii)
            stages[at] = fifo_stage(fifo.name, fifo.layer, fifo.inputs[0], fifo.outputs[0], depth)
    return replace(pipeline, stages=tuple(stages))


def _depth(fifo: Stage, join: Stage, arrivals: _Beats, needed: _Beats, ii: int) -> int:
    """A power of two, at least as much as two bounds.

    Clocks: the beats that stand there while the other branch catches up, rows ii clocks apart. Needs: the beats that a fork
    has to hand to this branch before the other can make what the first of them meets, whatever the clocks.
    """
    mine = join.inputs.index(fifo.outputs[0])
    source, other = fifo.inputs[0].name, join.inputs[1 - mine].name
    taken = arrivals[join.outputs[0].name] - join.timing.latency
    # for each of my beats, the first output that takes it
    first = np.searchsorted(join.timing.needs[mine], np.arange(fifo.inputs[0].beats))
    by_clocks = waiting(arrivals[source], taken[first], ii)
    theirs = join.timing.needs[1 - mine][first]
    meets = np.where(theirs < 0, -1, needed[other][theirs])
    ahead = np.searchsorted(needed[source], meets, side="right") - np.arange(len(first))
    return 1 << max(1, max(by_clocks, int(ahead.max(initial=0)) + 1).bit_length())
