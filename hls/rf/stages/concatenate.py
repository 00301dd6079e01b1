# SPDX-License-Identifier: Apache-2.0
"""Concatenation of two tensors along an axis, as rf_concat."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.map import linear
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType
from hypersonic.hls.rf.stages.map import map_stage


def _plan(plan: Planner, layer: Concatenate) -> None:
    lanes = plan.fewest_lanes(gcd(layer.a.channels, layer.b.channels), layer.y.size)
    a, b = (
        plan.buffered(plan.with_lanes(_cast(plan, layer, tensor, side), lanes, layer.name), layer.name, side)
        for side, tensor in zip("ab", layer.inputs, strict=True)
    )
    plan.finish(layer, concat_stage(plan.stage_name(layer.name), layer, a, b, plan.result(layer, lanes)))


def _cast(plan: Planner, layer: Concatenate, tensor: Tensor, side: str) -> Stream:
    """Return a stream of the tensor, cast to the type of the result."""
    x, kind = plan.take(tensor), layer.y.precision
    if tensor.precision == kind:
        return x
    name = plan.stage_name(f"{layer.name}_cast_{side}")
    y = replace(x, name=plan.stream_name(f"{x.name}_{name}"), precision=kind)
    work = linear(layer.name, tensor, Tensor(f"{tensor.name}_cast", tensor.shape, kind))
    plan.add(map_stage(name, work, x, y))
    return y


def concat_stage(name: str, layer: Concatenate, a: Stream, b: Stream, y: Stream) -> Stage:
    """Return the rf_concat stage, which passes beats of a and of b in turn."""
    turns = int(np.prod(layer.y.shape[: layer.axis], dtype=np.int64))
    a_beats, b_beats = a.beats // turns, b.beats // turns
    parameters: dict[str, Value] = {"WIDTH": y.width, "A_BEATS": a_beats, "B_BEATS": b_beats}
    turn, place = np.divmod(np.arange(y.beats), a_beats + b_beats)
    from_a = turn * a_beats + np.minimum(place, a_beats - 1)
    # the beats of b that each output waits for: a turn of a waits for the previous turn of b, and the first one for none
    from_b = turn * b_beats + np.maximum(place - a_beats, -1)
    timing = Timing((from_a.astype(np.int64), from_b.astype(np.int64)), 1, 1, y.beats)
    return Stage(name, "rf_concat", layer.name, parameters, (a, b), (y,), timing)


def _cost(stage: Stage, _numbers: Numbers) -> Amounts:
    """Resources of a skid buffer and counters."""
    return skid_cost(stage.outputs[0].width + 1) + Amounts(lut=24 + stage.outputs[0].width, ff=15)


STAGE = StageType(("rf_concat",), _cost, NO_LIMIT, LayerPlan(Concatenate, _plan))
