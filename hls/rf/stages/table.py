# SPDX-License-Identifier: Apache-2.0
"""Elementwise layers with a table, as rf_table: sigmoid, tanh, ELU, SELU, softplus, softsign; SiLU, GELU and hard SiLU.

The last three are the sum of a ReLU and of such a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, dsps, flow_cost, roms_cost
from hypersonic.hls.rf.layers import OneInput, Tensor
from hypersonic.hls.rf.parts.attributes import NONE, fixed, number, parameter, precision, refuse, streamed
from hypersonic.hls.rf.parts.casts import cast_all, raw_array, result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, MAX_INDEX_FRACTION, Numbers, Width, shift
from hypersonic.hls.rf.parts.maps import Map, MapFunction
from hypersonic.hls.rf.parts.merges import Merge, MergeOperation
from hypersonic.hls.rf.parts.tables import CURVES, SELU_LAMBDA, SELU_SCALE, curve_values
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerType, Planner, StageType

#: clocks from the edge that accepts a beat to the edge at which its result can be accepted
TABLE_CLOCKS = 9


@dataclass(frozen=True, eq=False)
class Table(OneInput):
    """A function tabulated in `size` entries over span = 2**span_log2 units of x; nnet_activation.h, parts/tables.py.

    sigmoid, tanh, softplus, softsign: y = values[min(max(int(x * size / span) + size / 2, 0), size - 1)], int() towards zero.
    elu, selu (negative_only): y = result(scale * x) where x >= 0, else values[min(int(-x * size / span), size - 1)].
    values: (size,) raw integers of y's type, cast from the table's own type. scale: one constant.
    """

    values: Constants
    span_log2: int
    negative_only: bool
    scale: Constants


def table_value(layer: Table, kind: FixedPoint, raw: int) -> int:
    """Return the raw result that the C++ gives for one raw input of type `kind`."""
    size, to = len(layer.values.raw), layer.y.precision
    if layer.negative_only and raw >= 0:
        return to.cast(raw * int(layer.scale.raw[0]), kind.fraction + layer.scale.fraction)
    steps, unit = abs(raw) * size, kind.fraction + layer.span_log2
    index = steps >> unit if unit >= 0 else steps << -unit
    if not layer.negative_only:
        index = (index if raw >= 0 else -index) + size // 2
    return int(layer.values.raw[min(max(index, 0), size - 1)])


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> Table | tuple[Map, Table, Merge]:
    function = str(layer.get_attr("activation")).lower()
    if not CURVES[function].dip:
        return curve_table(layer, function, x, y)
    kind = precision(layer, "table_t")
    above, dip = (
        replace(y, name=f"{layer.name}_above", precision=x.precision),
        replace(y, name=f"{layer.name}_dip", precision=kind),
    )
    return (
        Map(layer.name, x, above, MapFunction.RELU, NONE, NONE),
        curve_table(layer, function, x, dip),
        Merge(layer.name, above, dip, y, MergeOperation.ADD),
    )


def curve_table(layer: Any, function: str, x: Tensor, y: Tensor) -> Table:
    """Return the table of a function, a key of CURVES, with the layer's table_size and table_t."""
    size, curve, table = int(layer.get_attr("table_size")), CURVES[function], precision(layer, "table_t")
    if x.precision.width - x.precision.fraction + size.bit_length() - 1 > 31 + curve.span_log2:
        raise refuse(layer, f"its input is {x.precision}, whose index of {size} entries does not fit the C++'s int")
    fixed(layer, table, "table_t")
    values, scale = curve_values(function, size, table), number(1)
    if function == "selu":
        scale = _selu_scale(layer, x.precision)
    elif function == "elu":
        alpha = parameter(layer, "activ_param", "param_t")
        values = Constants(values.raw.astype(object) * int(alpha.raw[0]), values.fraction + alpha.fraction)
    final = Constants(raw_array(cast_all(values, y.precision), y.precision.width), y.precision.fraction)
    return Table(layer.name, x, y, final, curve.span_log2, curve.negative_only, scale)


def _selu_scale(layer: Any, x: FixedPoint) -> Constants:
    """Return the factor for positive x: an ap_ufixed<16,1> in io_parallel, a number of x's type in io_stream."""
    if not streamed(layer):
        return SELU_SCALE
    return Constants(fixed(layer, x, "its input").from_float(SELU_LAMBDA).reshape(1), x.fraction)


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
    lane = Amounts(lut=1.2 * x, ff=3 * x + 2 * y + 12) + roms_cost(memory.shape for memory in stage.memories)
    if numbers.get("POSITIVE_PASS"):
        gain = numbers["GAIN"].bit_length() + 1
        lane += Amounts(lut=y, ff=x + gain + 2 * y, dsp=dsps(x, gain) if gain > 2 else 0) + cast_cost(x + gain, numbers)
    return lane.times(lanes) + flow_cost(lanes * y, 7)


def _passed(numbers: Numbers) -> Width:
    """Width of the product with the gain, the input of rf_cast; 1 for functions without a gain, such as sigmoid."""
    gain = numbers.get("GAIN", 0).bit_length() + 1
    passed = numbers["X_WIDTH"] + 1 + gain if numbers.get("POSITIVE_PASS") else 1
    return Width(passed, MAX_CAST_WIDTH, "a product")


def _index(numbers: Numbers) -> Width:
    return Width(numbers["SCALE_SHIFT"], MAX_INDEX_FRACTION, "an index's fraction")


STAGE = StageType(
    ("rf_table",), _cost, (_passed, _index, shift), LayerType(Table, _plan, activations=dict.fromkeys(CURVES, _read))
)
