# SPDX-License-Identifier: Apache-2.0
"""FIFOs in front of joins, deep enough that two branches of one fork neither deadlock nor delay each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.rf.stage import Pipeline, Stage
from hypersonic.hls.rf.timing import Clocks, clocks_among_rows, common_forks, dependences, waiting

_Beats = dict[str, NDArray[np.int64]]


def with_fifos(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the FIFOs in front of its joins (axis_fifo stages) at the depths they need."""
    timed = clocks_among_rows(pipeline)
    stages = list(pipeline.stages)
    for join in pipeline.stages:
        if len(join.inputs) != 2:
            continue
        needed = [dependences(pipeline, fork) for fork in common_forks(pipeline, join)]
        for stream in join.inputs:
            at = next(i for i, stage in enumerate(stages) if stream in stage.outputs)
            fifo = stages[at]
            beats = max(_by_clocks(fifo, join, timed), *(_by_needs(fifo, join, one) for one in needed))
            depth = 1 << max(1, beats.bit_length())
            stages[at] = with_depth(fifo, depth)
    return replace(pipeline, stages=tuple(stages))


def with_depth(fifo: Stage, depth: int) -> Stage:
    """Return the axis_fifo stage with room for `depth` beats."""
    return replace(fifo, parameters={**fifo.parameters, "DEPTH": depth}, ram_bits=depth * int(fifo.parameters["WIDTH"]))


def _by_clocks(fifo: Stage, join: Stage, timed: Clocks) -> int:
    """Return the beats that wait in the FIFO until the other branch catches up, for rows timed.ii clocks apart."""
    taken = timed.arrivals[join.outputs[0].name] - join.timing.latency
    return waiting(timed.arrivals[fifo.inputs[0].name], taken[_first_takers(fifo, join)], timed.ii)


def _by_needs(fifo: Stage, join: Stage, needed: _Beats) -> int:
    """Return the beats that a fork must pass to this branch before the other branch can produce the first matching beat.

    This bound does not depend on clocks.

    Args:
        needed: dependences() of that fork.
    """
    mine, first = join.inputs.index(fifo.outputs[0]), _first_takers(fifo, join)
    source, other = fifo.inputs[0].name, join.inputs[1 - mine].name
    theirs = join.timing.needs[1 - mine][first]
    meets = np.where(theirs < 0, -1, needed[other][theirs])
    ahead = np.searchsorted(needed[source], meets, side="right") - np.arange(len(first))
    return int(ahead.max(initial=0)) + 1


def _first_takers(fifo: Stage, join: Stage) -> NDArray[np.int64]:
    """Return, for each beat of the FIFO, the index of the join's first output beat that uses it."""
    needs = join.timing.needs[join.inputs.index(fifo.outputs[0])]
    return np.searchsorted(needs, np.arange(fifo.inputs[0].beats))
