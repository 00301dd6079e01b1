# SPDX-License-Identifier: Apache-2.0
"""Lays a pipeline over several dies: each stage gets its die, and streams get registers where they pass from die to die.

The kernel's shell, with the ports of the core, is on die 0. A stream from die 0 to die 2 passes die 1::

    die 0:  stage --> axis_skid --+
    die 1:                        +--> axis_skid --> axis_skid --+
    die 2:                                                       +--> axis_skid --> stage

The results return to die 0 in the same way. The registers add clocks to a row's latency, not to the interval of rows, and the
depths of FIFOs, which are planned later, include them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from hypersonic.hls.rf.stage import Pipeline, Stage, Stream
from hypersonic.hls.rf.top.scope import Scope
from hypersonic.hls.rf.wires.crossing import crossing_stage


def crossed(pipeline: Pipeline, cuts: Sequence[str], scope: Scope) -> Pipeline:
    """Return the pipeline over len(cuts) + 1 dies.

    Args:
        cuts: the first stage of each die but the first, as in DiePlan; without any, the pipeline is returned unchanged.
        scope: for the names of the registers.
    """
    if not cuts:
        return pipeline
    laid, last = _Laid(pipeline.inputs, scope), len(cuts)
    bounds, stages = cut_positions(pipeline.stages, cuts), pipeline.stages[: chained(pipeline.stages)]
    dies = [bisect_right(bounds, k) for k in range(len(stages))]
    reader = {stream.name: die for stage, die in zip(stages, dies, strict=True) for stream in stage.inputs}
    source = {stream.name: die for stage, die in zip(stages, dies, strict=True) for stream in stage.outputs}
    for die in range(last + 1):
        for stage in (stage for stage, its in zip(stages, dies, strict=True) if its == die):
            laid.add(stage, die)
        laid.pass_on([name for name in laid.now if reader.get(name, 0) > die], die, die + 1)
    ends = pipeline.stages[len(stages) :]
    back = {stream.name for stage in ends for stream in stage.inputs} | {stream.name for stream in pipeline.outputs}
    for die in range(last, 0, -1):
        laid.pass_on([name for name, its in source.items() if its >= die and name in back], die, die - 1)
    for stage in ends:
        laid.add(stage, 0)
    return replace(pipeline, stages=tuple(laid.stages), outputs=tuple(laid.now[stream.name] for stream in pipeline.outputs))


class _Laid:
    """The stages so far, and for each stream, by its original name, the one on the die that it has reached."""

    def __init__(self, inputs: Sequence[Stream], scope: Scope) -> None:
        self.stages: list[Stage] = []
        self.now = {stream.name: stream for stream in inputs}
        self._layers = {stream.name: stream.name for stream in inputs}
        self._scope = scope

    def add(self, stage: Stage, die: int) -> None:
        self.stages.append(replace(stage, die=die, inputs=tuple(self.now[stream.name] for stream in stage.inputs)))
        self.now |= {stream.name: stream for stream in stage.outputs}
        self._layers |= {stream.name: stage.layer for stream in stage.outputs}

    def pass_on(self, names: Sequence[str], die: int, to: int) -> None:
        """Add the registers with which streams pass from a die to the next or back."""
        for at, word in ((die, "leaves"), (to, "enters")):
            for name in names:
                x, label = self.now[name], f"{name}_{word}_die{at}"
                self.now[name] = replace(x, name=self._scope.stream(label))
                self.stages.append(crossing_stage(self._scope.stage(label), self._layers[name], x, self.now[name], at))


def chained(stages: Sequence[Stage]) -> int:
    """Return the number of stages that are divided among the dies. Those after them are on die 0 with the core's ports: they
    widen results to whole rows, and a narrow stream takes fewer wires."""
    count = len(stages)
    while count and stages[count - 1].module == "rf_lanes":
        count -= 1
    return count


def cut_positions(stages: Sequence[Stage], cuts: Sequence[str]) -> list[int]:
    """Return the number of stages before each cut.

    Args:
        cuts: names of stages in their order; "" after the last one.
    """
    at = {stage.name: k for k, stage in enumerate(stages)} | {"": len(stages)}
    return [at[name] for name in cuts]
