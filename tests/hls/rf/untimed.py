# SPDX-License-Identifier: Apache-2.0
"""A pipeline's beats without clocks: whether it can block, however slow its source, its sink or any of its stages is.

A stage takes only the beats that its next result waits for and keeps nothing else; a stream holds one beat, an axis_fifo its
DEPTH. Stages wait for nothing but beats and places, so the order in which they act does not matter: where nothing can move, the
pipeline blocks for good in every order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypersonic.hls.rf.crossings import chained
from hypersonic.hls.rf.dies import joined
from hypersonic.hls.rf.stage import Pipeline, Stage


class _Beats:
    """How many beats of each stream were made and taken, of all rows."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.produced: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        for stage in pipeline.stages:
            for stream in stage.outputs:
                self.places[stream.name] = int(stage.parameters["DEPTH"]) if stage.module == "axis_fifo" else 1

    def there(self, name: str) -> bool:
        return self.produced[name] > self.taken[name]

    def room(self, name: str) -> bool:
        return self.produced[name] - self.taken[name] < self.places[name]


def blocks(pipeline: Pipeline, rows: int = 3) -> str:
    """The output beats that are missing when `rows` rows cannot pass, as text; "" if all rows pass."""
    beats = _Beats(pipeline)
    for stream in pipeline.inputs:
        beats.places[stream.name] = 1
    moved = True
    while moved:
        moved = any([_entered(pipeline, beats, rows), *(_acted(stage, beats) for stage in pipeline.stages)])
        for stream in pipeline.outputs:
            while beats.there(stream.name):
                beats.taken[stream.name] += 1
                moved = True
    missing = {stream.name: rows * stream.beats - beats.taken[stream.name] for stream in pipeline.outputs}
    return ", ".join(f"{count} of {name}" for name, count in missing.items() if count)


def _entered(pipeline: Pipeline, beats: _Beats, rows: int) -> bool:
    """Rows as the port has them: tensor after tensor."""
    moved = False
    while True:
        row = min(beats.produced[stream.name] // stream.beats for stream in pipeline.inputs)
        if row == rows:
            return moved
        stream = next(stream for stream in pipeline.inputs if beats.produced[stream.name] // stream.beats == row)
        if not beats.room(stream.name):
            return moved
        beats.produced[stream.name] += 1
        moved = True


def _acted(stage: Stage, beats: _Beats) -> bool:
    moved = False
    while _produced(stage, beats) or _took(stage, beats):
        moved = True
    return moved


def _produced(stage: Stage, beats: _Beats) -> bool:
    """One beat of each output, that has room for it, of whose inputs all it needs is taken."""
    moved = False
    for stream in stage.outputs:
        row, beat = divmod(beats.produced[stream.name], stream.beats)
        needs = [row * x.beats + int(need[beat]) for x, need in zip(stage.inputs, stage.timing.needs, strict=True)]
        ready = all(beats.taken[x.name] > need for x, need in zip(stage.inputs, needs, strict=True))
        if ready and beats.room(stream.name):
            beats.produced[stream.name] += 1
            moved = True
    return moved


def _took(stage: Stage, beats: _Beats) -> bool:
    """One beat that the slowest output waits for, or that is left of its row."""
    slowest = min(stage.outputs, key=lambda stream: beats.produced[stream.name])
    row, beat = divmod(beats.produced[slowest.name], slowest.beats)
    for x, need in zip(stage.inputs, stage.timing.needs, strict=True):
        wanted = row * x.beats + int(need[beat]) + 1
        if beats.there(x.name) and beats.taken[x.name] < (wanted if beat else max(wanted, row * x.beats)):
            beats.taken[x.name] += 1
            return True
    return False


def drawn_cuts(pipeline: Pipeline, where: Iterable[float]) -> tuple[str, ...]:
    """The first stages of further dies; where: each a place in the pipeline, from 0 to 1."""
    count = chained(pipeline.stages)
    places = [k for k in range(count + 1) if k not in joined(pipeline)]
    cuts = [places[min(int(at * len(places)), len(places) - 1)] for at in sorted(where)]
    return tuple(pipeline.stages[cut].name if cut < count else "" for cut in cuts)
