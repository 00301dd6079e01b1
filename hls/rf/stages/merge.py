# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on two tensors, as rf_add, and the products of a Dot."""

from __future__ import annotations

from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, dsps, flow_cost
from hypersonic.hls.rf.layers import Tensor
from hypersonic.hls.rf.parts.attributes import precision, refuse, shape_text, streamed
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Numbers, Width, shift
from hypersonic.hls.rf.parts.merges import Merge, MergeOperation
from hypersonic.hls.rf.parts.products import check_accumulator, reuse
from hypersonic.hls.rf.stage import Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerType, Planner, StageType
from hypersonic.hls.rf.stages.dense import Dense

#: clocks from the edge that accepts a beat to the edge at which its result can be accepted
ADD_CLOCKS = 6


def _read(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> Merge:
    operation = str(layer.get_attr("op")).lower()
    if operation not in tuple(MergeOperation):
        raise refuse(layer, f"the operation is {operation}, expected one of {', '.join(MergeOperation)}")
    if a.shape != b.shape:
        raise refuse(layer, f"its inputs are {shape_text(a.shape)} and {shape_text(b.shape)}, expected equal shapes")
    return Merge(layer.name, a, b, y, MergeOperation(operation))


def _dot(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> tuple[Merge, Dense]:
    """Read hls4ml's Dot of two vectors: each product in accum, then their sum in accum, as a Dense whose weights are 1."""
    if streamed(layer):
        raise refuse(layer, "hls4ml 1.3.0 has no C++ for it in io_stream: use io_parallel")
    accum = precision(layer, "accum_t")
    products = Tensor(f"{layer.name}_products", a.shape, accum)
    ones, zero = Constants(np.ones((a.size, 1), np.int64), 0), Constants(np.zeros(1, np.int64), 0)
    check_accumulator(layer, accum, ones, zero, accum)
    multiply = Merge(layer.name, a, b, products, MergeOperation.MULTIPLY)
    return multiply, Dense(layer.name, products, y, ones, zero, accum, *reuse(layer))


def _plan(plan: Planner, layer: Merge) -> None:
    lanes = plan.fewest_lanes(layer.y.channels, layer.y.size)
    a, b = (
        plan.buffered(plan.with_lanes(plan.take(tensor), lanes, layer.name), layer.name, side)
        for side, tensor in zip("ab", layer.inputs, strict=True)
    )
    plan.finish(layer, merge_stage(plan.stage_name(layer.name), layer, a, b, plan.result(layer, lanes)))


def merge_stage(name: str, layer: Merge, a: Stream, b: Stream, y: Stream) -> Stage:
    """Return the rf_add stage, which aligns both inputs to the finer of their grids."""
    finer = max(a.precision.fraction, b.precision.fraction)
    product = layer.operation is MergeOperation.MULTIPLY
    fraction = a.precision.fraction + b.precision.fraction if product else finer
    parameters: dict[str, Value] = {"OP": _OPERATIONS[layer.operation], "LANES": y.lanes}
    for side, kind in (("A", a.precision), ("B", b.precision)):
        parameters |= {f"{side}_WIDTH": kind.width, f"{side}_SIGNED": int(kind.signed)}
        parameters |= {f"{side}_LEFT": 0 if product else finer - kind.fraction}
    parameters |= result_parameters(fraction + (layer.operation is MergeOperation.AVERAGE), layer.y.precision)
    timing = one_to_one(y.beats, ADD_CLOCKS, 2)
    return Stage(
        name, "rf_add", layer.name, parameters, (a, b), (y,), timing,
        multipliers=y.lanes if product else 0, multiplications=layer.y.size if product else 0,
    )  # fmt: skip


_OPERATIONS = {
    MergeOperation.ADD: 0,
    MergeOperation.AVERAGE: 0,  # with one more fraction bit
    MergeOperation.SUBTRACT: 1,
    MergeOperation.MULTIPLY: 2,
    MergeOperation.MAXIMUM: 3,
    MergeOperation.MINIMUM: 4,
}


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    a, b = (numbers[f"{side}_WIDTH"] + 1 + numbers.get(f"{side}_LEFT", 0) for side in "AB")
    product = numbers["OP"] == 2
    width = a + b if product else max(a, b) + 1
    lane = Amounts(lut=0 if product else width, ff=a + b + width, dsp=dsps(a, b) if product else 0) + cast_cost(width, numbers)
    return lane.times(numbers["LANES"]) + flow_cost(numbers["LANES"] * numbers["Y_WIDTH"], 4)


def _joined(numbers: Numbers) -> Width:
    a, b = (numbers[f"{side}_WIDTH"] + 1 + numbers[f"{side}_LEFT"] for side in "AB")
    return Width(a + b if numbers["OP"] == 2 else max(a, b) + 1, MAX_CAST_WIDTH, "a sum or product")


STAGE = StageType(("rf_add",), _cost, (_joined, shift), LayerType(Merge, _plan, {"Merge": _read, "Dot": _dot}))
