# SPDX-License-Identifier: Apache-2.0
"""axis_skid: the registers of a stream that passes from one die to the next, one on each side of the boundary."""

from __future__ import annotations

from collections.abc import Iterator

from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, one_to_one
from hypersonic.hls.rf.stage_type import StageType
from hypersonic.hls.rf.top.crossing import skid


def crossing_stage(name: str, layer: str, x: Stream, y: Stream, die: int) -> Stage:
    """Return the axis_skid stage on a die; tlast is one more bit of its data."""
    return Stage(name, "axis_skid", layer, {"WIDTH": x.width + 1}, (x,), (y,), one_to_one(x.beats, 1), die=die)


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    return skid_cost(numbers["WIDTH"])


def _text(stage: Stage) -> Iterator[str]:
    x, y = stage.inputs[0].name, stage.outputs[0].name
    yield from skid(
        f"u_{stage.name}",
        int(stage.parameters["WIDTH"]),
        (f"{x}_tvalid", f"{x}_tready", f"{{{x}_tlast, {x}_tdata}}"),
        (f"{y}_tvalid", f"{y}_tready", f"{{{y}_tlast, {y}_tdata}}"),
    )


STAGE = StageType(("axis_skid",), _cost, NO_LIMIT, text=_text)
