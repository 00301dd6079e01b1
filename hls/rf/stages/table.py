# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers with a table, as rf_table."""

from __future__ import annotations

from hypersonic.hls.network.layers.table import Table
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, lookup_cost, operands_cost, roms_cost
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, MAX_INDEX_FRACTION, Numbers, Width, shift
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: clocks from the edge that accepts a beat to the edge at which its result can be accepted
TABLE_CLOCKS = 9


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Table) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.size)
    plan.finish(layer, table_stage(name, layer, x, plan.result(layer, x.lanes)))


def table_stage(name: str, layer: Table, x: Stream, y: Stream) -> Stage:
    """Return the rf_table stage, which computes the index as the C++ does."""
    kind, size = x.precision, len(layer.values.raw)
    parameters: dict[str, Value] = {
        "LANES": x.lanes, "X_WIDTH": kind.width, "X_SIGNED": int(kind.signed),
        "SCALE": -size if layer.negative_only else size, "SCALE_SHIFT": kind.fraction + layer.span_log2,
        "OFFSET": 0 if layer.negative_only else size // 2, "TABLE_SIZE": size, "TABLE_FILE": f"{name}.table.mem",
    }  # fmt: skip
    if layer.negative_only:
        parameters |= {"POSITIVE_PASS": 1, "GAIN": int(layer.scale.raw[0])}
        parameters |= result_parameters(kind.fraction + layer.scale.fraction, layer.y.precision)
    else:
        parameters["Y_WIDTH"] = y.precision.width
    memory = Memory(f"{name}.table.mem", layer.values.raw.reshape(-1, 1), (y.precision.width,))
    return Stage(name, "rf_table", layer.name, parameters, (x,), (y,), one_to_one(x.beats, TABLE_CLOCKS), (memory,))


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    lanes, x, y = numbers["LANES"], numbers["X_WIDTH"] + 1, numbers["Y_WIDTH"]
    lane = lookup_cost(x, y) + roms_cost(memory.shape for memory in stage.memories)
    if numbers.get("POSITIVE_PASS"):
        gain = numbers["GAIN"].bit_length() + 1
        product = operands_cost(x, gain) if gain > 2 else NOTHING
        lane += product + Amounts(lut=2 * y, ff=2 * y) + cast_cost(x + gain, numbers)
    return lane.times(lanes) + flow_cost(lanes * y, 7)


def _passed(numbers: Numbers) -> Width:
    """Width of the product with the gain, the input of fixed_cast; 1 for functions without a gain, such as sigmoid."""
    gain = numbers.get("GAIN", 0).bit_length() + 1
    passed = numbers["X_WIDTH"] + 1 + gain if numbers.get("POSITIVE_PASS") else 1
    return Width(passed, MAX_CAST_WIDTH, "a product")


def _index(numbers: Numbers) -> Width:
    return Width(numbers["SCALE_SHIFT"], MAX_INDEX_FRACTION, "an index's fraction")


STAGE = StageType(("rf_table",), _cost, (_passed, _index, shift), LayerPlan(Table, _plan))
