# SPDX-License-Identifier: Apache-2.0
"""rf_lanes: conversion of a stream to beats of more or fewer elements, between layers."""

from __future__ import annotations

from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.needs import groups, parts
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import StageType


def lanes_stage(name: str, layer: str, x: Stream, y: Stream) -> Stage:
    """Return the rf_lanes stage. The lanes of one stream are a multiple of the other's."""
    parameters: dict[str, Value] = {"IN_LANES": x.lanes, "OUT_LANES": y.lanes, "WIDTH": x.precision.width}
    if x.lanes > y.lanes:
        timing = Timing((parts(y.beats, x.lanes // y.lanes),), 2, 1, y.beats)
    else:
        timing = Timing((groups(y.beats, y.lanes // x.lanes),), 1, 1, x.beats)
    return Stage(name, "rf_lanes", layer, parameters, (x,), (y,), timing)


def _cost(stage: Stage, _numbers: Numbers) -> Amounts:
    x, y = stage.inputs[0], stage.outputs[0]
    if x.lanes > y.lanes:
        return skid_cost(x.width + 1) + Amounts(lut=x.width + 12, ff=x.width + 8)
    return Amounts(lut=8, ff=2 * y.width - x.width + 8)


STAGE = StageType(("rf_lanes",), _cost, NO_LIMIT)
