# SPDX-License-Identifier: Apache-2.0
"""rf_fork: copies of a stream for several readers."""

from __future__ import annotations

from collections.abc import Iterator

from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import StageType
from hypersonic.hls.rf.top.ports import fork


def fork_stage(name: str, layer: str, x: Stream, ys: tuple[Stream, ...]) -> Stage:
    """Return the rf_fork stage, whose outputs ys are copies of x."""
    parameters: dict[str, Value] = {"WIDTH": x.width, "COUNT": len(ys)}
    return Stage(name, "rf_fork", layer, parameters, (x,), ys, one_to_one(x.beats, 1))


def _cost(stage: Stage, _numbers: Numbers) -> Amounts:
    return skid_cost(stage.inputs[0].width + 1) + Amounts(lut=4 * len(stage.outputs), ff=2 * len(stage.outputs))


def _text(stage: Stage) -> Iterator[str]:
    """Yield the instance, which drives the data wires of the first reader; the others are assigned from these."""
    x, names = stage.inputs[0].name, [stream.name for stream in stage.outputs]
    source = (f"{x}_tvalid", f"{x}_tready", f"{x}_tdata", f"{x}_tlast")
    yield from fork(stage.name, source, names[0], stage.outputs)
    for n in names[1:]:
        yield f"  assign {n}_tdata = {names[0]}_tdata;"
        yield f"  assign {n}_tlast = {names[0]}_tlast;"


STAGE = StageType(("rf_fork",), _cost, NO_LIMIT, text=_text)
