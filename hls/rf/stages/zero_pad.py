# SPDX-License-Identifier: Apache-2.0
"""Zero padding around an image, as rf_pad, unless it is folded into a window (read.py)."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.network.layers.zero_pad import ZeroPad
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType


def _plan(plan: Planner, layer: ZeroPad) -> None:
    name = plan.stage_name(layer.name)
    x = plan.with_lanes(plan.take(layer.x), plan.fewest_lanes(layer.x.channels, layer.y.size), layer.name)
    plan.finish(layer, pad_stage(name, layer, x, plan.result(layer, x.lanes)))


def pad_stage(name: str, layer: ZeroPad, x: Stream, y: Stream) -> Stage:
    """Return the rf_pad stage. The zeros before an image are sent when its first beat has arrived."""
    (height, width, channels), (top, bottom, left, right) = layer.x.image, layer.pad
    beats = channels // x.lanes
    parameters: dict[str, Value] = {
        "WIDTH": x.width, "H": height, "W": width, "BEATS": beats, "TOP": top, "BOTTOM": bottom, "LEFT": left, "RIGHT": right
    }  # fmt: skip
    inside = np.zeros((height + top + bottom, width + left + right, beats), dtype=np.int64)
    inside[top : top + height, left : left + width] = 1
    needs = np.maximum(np.cumsum(inside.reshape(-1)) - 1, 0)
    return Stage(name, "rf_pad", layer.name, parameters, (x,), (y,), Timing((needs,), 1, 1, y.beats))


def _cost(stage: Stage, _numbers: Numbers) -> Amounts:
    """Resources of a skid buffer and counters."""
    return skid_cost(stage.outputs[0].width + 1) + Amounts(lut=24 + stage.outputs[0].width, ff=15)


STAGE = StageType(("rf_pad",), _cost, NO_LIMIT, LayerPlan(ZeroPad, _plan))
