# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on two tensors, as rf_merge."""

from __future__ import annotations

from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, operands_cost
from hypersonic.hls.rf.modes import MergeOp
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Numbers, Width, shift
from hypersonic.hls.rf.stage import Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: clocks from the edge that accepts a beat to the edge at which its result can be accepted
MERGE_CLOCKS = 6


def _plan(plan: Planner, layer: Merge) -> None:
    lanes = plan.fewest_lanes(layer.y.channels, layer.y.size)
    a, b = (
        plan.buffered(plan.with_lanes(plan.take(tensor), lanes, layer.name), layer.name, side)
        for side, tensor in zip("ab", layer.inputs, strict=True)
    )
    plan.finish(layer, merge_stage(plan.stage_name(layer.name), layer, a, b, plan.result(layer, lanes)))


def merge_stage(name: str, layer: Merge, a: Stream, b: Stream, y: Stream) -> Stage:
    """Return the rf_merge stage, which aligns both inputs to the finer of their grids."""
    finer = max(a.precision.fraction, b.precision.fraction)
    product = layer.operation is MergeOperation.MULTIPLY
    fraction = a.precision.fraction + b.precision.fraction if product else finer
    parameters: dict[str, Value] = {"OP": _OPERATIONS[layer.operation], "LANES": y.lanes}
    for side, kind in (("A", a.precision), ("B", b.precision)):
        parameters |= {f"{side}_WIDTH": kind.width, f"{side}_SIGNED": int(kind.signed)}
        parameters |= {f"{side}_LEFT": 0 if product else finer - kind.fraction}
    parameters |= result_parameters(fraction + (layer.operation is MergeOperation.AVERAGE), layer.y.precision)
    timing = one_to_one(y.beats, MERGE_CLOCKS, 2)
    return Stage(
        name, "rf_merge", layer.name, parameters, (a, b), (y,), timing,
        multipliers=y.lanes if product else 0, multiplications=layer.y.size if product else 0,
    )  # fmt: skip


_OPERATIONS = {
    MergeOperation.ADD: MergeOp.ADD,
    MergeOperation.AVERAGE: MergeOp.ADD,  # with one more fraction bit
    MergeOperation.SUBTRACT: MergeOp.SUBTRACT,
    MergeOperation.MULTIPLY: MergeOp.MULTIPLY,
    MergeOperation.MAXIMUM: MergeOp.MAXIMUM,
    MergeOperation.MINIMUM: MergeOp.MINIMUM,
}


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    a, b = (numbers[f"{side}_WIDTH"] + 1 + numbers.get(f"{side}_LEFT", 0) for side in "AB")
    product = numbers["OP"] == MergeOp.MULTIPLY
    width = a + b if product else max(a, b) + 1
    lane = operands_cost(a, b) if product else Amounts(lut=width, ff=a + b + width)
    lane += cast_cost(width, numbers)
    return lane.times(numbers["LANES"]) + flow_cost(numbers["LANES"] * numbers["Y_WIDTH"], 4)


def _joined(numbers: Numbers) -> Width:
    a, b = (numbers[f"{side}_WIDTH"] + 1 + numbers[f"{side}_LEFT"] for side in "AB")
    return Width(a + b if numbers["OP"] == MergeOp.MULTIPLY else max(a, b) + 1, MAX_CAST_WIDTH, "a sum or product")


STAGE = StageType(("rf_merge",), _cost, (_joined, shift), LayerPlan(Merge, _plan))
