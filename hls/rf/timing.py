# SPDX-License-Identifier: Apache-2.0
"""Clocks of a pipeline: when each beat of a row is passed on, and the interval of rows. Measured clocks are compared with
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.rf.stage import Pipeline, Stage, Timing, is_whole, port_beats, row_beats


@dataclass(frozen=True, eq=False)
class Clocks:
    """Predicted clocks of one row.

    Attributes:
        arrivals: stream name -> the clock edges (beats,) at which its beats can be taken.
        ii, latency: of the network, as in Core.
    """

    arrivals: dict[str, NDArray[np.int64]]
    ii: int
    latency: int


def clocks(pipeline: Pipeline) -> Clocks:
    """Return the clocks of a single row whose input beats are one clock apart."""
    return _clocks(pipeline, lambda _, departed: departed)


def clocks_among_rows(pipeline: Pipeline) -> Clocks:
    """Return the clocks of a row that has rows before and after it: a stage starts a row when it has finished the previous one.

    A concatenation that waits longer than a row for its second tensor therefore takes the first one late.
    """
    ii = row_interval(pipeline)

    def behind(timing: Timing, departed: NDArray[np.int64]) -> NDArray[np.int64]:
        after = departed[-1] - ii + timing.gap * np.arange(1, len(departed) + 1)
        settled: NDArray[np.int64] = np.maximum(departed, np.minimum(after, departed[-1]))
        return settled

    return _clocks(pipeline, behind)


def _clocks(pipeline: Pipeline, settle: Callable[[Timing, NDArray[np.int64]], NDArray[np.int64]]) -> Clocks:
    arrivals = offered(pipeline)
    for stage in pipeline.stages:
        departed = settle(stage.timing, stage.timing.departures(tuple(arrivals[stream.name] for stream in stage.inputs)))
        for stream in stage.outputs:
            arrivals[stream.name] = departed
    latency = max(int(arrivals[stream.name][-1]) for stream in pipeline.outputs)
    return Clocks(arrivals, row_interval(pipeline), latency)


def row_interval(pipeline: Pipeline) -> int:
    """Return the clocks from row to row: the maximum of all stages, the ports, and the port through which weights are read."""
    ports = [port_beats(pipeline.inputs), port_beats(pipeline.outputs), sum(map(row_beats, pipeline.stages))]
    return max([stage.timing.ii for stage in pipeline.stages] + ports)


def offered(pipeline: Pipeline) -> dict[str, NDArray[np.int64]]:
    """Return stream name -> the clock edges at which an input's beats are offered: all in one beat, or tensor after tensor."""
    # a fork at the entrance delays a row of several tensors by one clock
    offered, at = {}, int(is_whole(pipeline.inputs) and len(pipeline.inputs) > 1)
    for stream in pipeline.inputs:
        offered[stream.name] = np.arange(at, at + stream.beats, dtype=np.int64)
        at += 0 if is_whole(pipeline.inputs) else stream.beats
    return offered


def dependences(pipeline: Pipeline, fork: Stage | None) -> dict[str, NDArray[np.int64]]:
    """Return, for every stream and beat, the index of the last beat of the fork that it depends on; -1 for none.

    Args:
        fork: a stage whose outputs are copies of each other; None: the port, whose beats go to one input after the other.
    """
    if fork is None:
        known = offered(pipeline)
    else:
        known = {stream.name: np.full(stream.beats, -1, dtype=np.int64) for stream in pipeline.inputs}
    for stage in pipeline.stages:
        free = Timing(stage.timing.needs, 0, 0, 0)
        departures = free.departures(tuple(known[stream.name] for stream in stage.inputs))
        for stream in stage.outputs:
            known[stream.name] = np.arange(stream.beats, dtype=np.int64) if stage is fork else departures
    return known


def common_forks(pipeline: Pipeline, join: Stage) -> tuple[Stage | None, ...]:
    """Return the last fork that both inputs of a join depend on, and earlier ones that reach an input around the last one.

    (None,) means that the inputs have only the port in common.
    """
    a, b = (_forks_behind(pipeline)[stream.name] for stream in join.inputs)
    shared = [stage for stage in pipeline.stages if stage.name in a & b]
    if not shared:
        return (None,)
    around = set[str]().union(*(_forks_behind(pipeline, shared[-1])[stream.name] for stream in join.inputs))
    return tuple(stage for stage in shared if stage is shared[-1] or stage.name in around)


def _forks_behind(pipeline: Pipeline, last: Stage | None = None) -> dict[str, set[str]]:
    """Return stream name -> names of the forks that it depends on.

    Args:
        last: a fork at which the search ends.
    """
    behind: dict[str, set[str]] = {stream.name: set() for stream in pipeline.inputs}
    for stage in pipeline.stages:
        forks = set[str]().union(*(behind[stream.name] for stream in stage.inputs)) if stage is not last else set()
        for stream in stage.outputs:
            behind[stream.name] = forks | ({stage.name} if len(stage.outputs) > 1 else set())
    return behind


def waiting(early: NDArray[np.int64], taken: NDArray[np.int64], ii: int) -> int:
    """Return the largest number of beats in a FIFO that beat j enters at early[j] and leaves at taken[j].

    Args:
        ii: clocks between rows.
    """
    rows = int(max(0, (taken - early).max()) // max(ii, 1)) + 2
    shifts = np.arange(rows, dtype=np.int64)[:, None] * ii
    entered, left = np.sort((early + shifts).reshape(-1)), np.sort((taken + shifts).reshape(-1))
    present = np.arange(1, len(entered) + 1) - np.searchsorted(left, entered, side="left")
    return int(present.max())


def busy(stage: Stage, ii: int) -> float:
    """Return the fraction of clocks in which a stage's multipliers work, for rows ii clocks apart; 0 without multipliers."""
    return stage.multiplications / (stage.multipliers * ii) if stage.multipliers else 0.0
