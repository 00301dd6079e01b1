# SPDX-License-Identifier: Apache-2.0
"""Clocks of a pipeline: each beat's way through one row, and the interval of rows. Measured clocks must equal these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.rf.stage import Pipeline, Stage, Timing, is_whole, port_beats, row_beats


@dataclass(frozen=True, eq=False)
class Clocks:
    """arrivals: stream name -> the edges at which its beats can be taken. ii, latency: of the network; see Core."""

    arrivals: dict[str, NDArray[np.int64]]
    ii: int
    latency: int


def clocks(pipeline: Pipeline) -> Clocks:
    """One row through the pipeline, its input beats a clock apart."""
    return _clocks(pipeline, lambda _, departed: departed)


def clocks_among_rows(pipeline: Pipeline) -> Clocks:
    """The same with rows before and behind it: a stage begins with a row when it is done with the one before.

    A concatenation that has one tensor early, and waits longer than a row for the other, takes the early one late.
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
    """Clocks from row to row: of the slowest stage, the ports, or the one port through which weights come."""
    ports = [port_beats(pipeline.inputs), port_beats(pipeline.outputs), sum(map(row_beats, pipeline.stages))]
    return max([stage.timing.ii for stage in pipeline.stages] + ports)


def offered(pipeline: Pipeline) -> dict[str, NDArray[np.int64]]:
    """When the ports' beats of one row come: side by side in one, or tensor after tensor."""
    # the entrance forks a row of several tensors
    offered, at = {}, int(is_whole(pipeline.inputs) and len(pipeline.inputs) > 1)
    for stream in pipeline.inputs:
        offered[stream.name] = np.arange(at, at + stream.beats, dtype=np.int64)
        at += 0 if is_whole(pipeline.inputs) else stream.beats
    return offered


def dependences(pipeline: Pipeline, fork: Stage | None) -> dict[str, NDArray[np.int64]]:
    """For every stream and beat, the index of the last beat of the fork without which it cannot exist; -1: of none.

    fork: a stage whose outputs are copies of one another; None: the port, whose beats go to one input after the other.
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
    """The last fork that both of a join's inputs come from, and those before it that reach one of them round that last one.

    (None,): only the port is common to them.
    """
    a, b = (_forks_behind(pipeline)[stream.name] for stream in join.inputs)
    shared = [stage for stage in pipeline.stages if stage.name in a & b]
    if not shared:
        return (None,)
    around = set[str]().union(*(_forks_behind(pipeline, shared[-1])[stream.name] for stream in join.inputs))
    return tuple(stage for stage in shared if stage is shared[-1] or stage.name in around)


def _forks_behind(pipeline: Pipeline, last: Stage | None = None) -> dict[str, set[str]]:
    """For each stream the names of the forks it comes from; last: a fork that nobody looks behind."""
    behind: dict[str, set[str]] = {stream.name: set() for stream in pipeline.inputs}
    for stage in pipeline.stages:
        forks = set[str]().union(*(behind[stream.name] for stream in stage.inputs)) if stage is not last else set()
        for stream in stage.outputs:
            behind[stream.name] = forks | ({stage.name} if len(stage.outputs) > 1 else set())
    return behind


def waiting(early: NDArray[np.int64], taken: NDArray[np.int64], ii: int) -> int:
    """The most beats that stand in a FIFO which beat j enters at early[j] and leaves at taken[j], rows ii clocks apart."""
    rows = int(max(0, (taken - early).max()) // max(ii, 1)) + 2
    shifts = np.arange(rows, dtype=np.int64)[:, None] * ii
    entered, left = np.sort((early + shifts).reshape(-1)), np.sort((taken + shifts).reshape(-1))
    present = np.arange(1, len(entered) + 1) - np.searchsorted(left, entered, side="left")
    return int(present.max())


def busy(stage: Stage, ii: int) -> float:
    """The share of a stage's multipliers' clocks that do a multiplication of the network, rows ii clocks apart."""
    return stage.multiplications / (stage.multipliers * ii) if stage.multipliers else 0.0
