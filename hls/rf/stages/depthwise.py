# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions, with one kernel per channel, as rf_window and rf_depthwise."""

from __future__ import annotations

from hypersonic.hls.network.layers.depthwise import Depthwise
from hypersonic.hls.network.raw import cast_all, signed_width
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, roms_cost, tree_cost
from hypersonic.hls.rf.needs import divisors, groups
from hypersonic.hls.rf.parts.limits import Numbers, accumulator, product, shift
from hypersonic.hls.rf.parts.products import arithmetic, bias_memory, check_accumulator
from hypersonic.hls.rf.parts.windows import least_interval
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, Sharing, StageType
from hypersonic.hls.rf.stages.window import add_window

#: clocks from the edge that accepts a window's last beat to the edge at which its result can be accepted, without the registers
#: of the adder tree
DEPTHWISE_CLOCKS = 9


# ---------------------------------------------------------------- multipliers
def depthwise_lanes(layer: Depthwise) -> int:
    """Return the lanes whose clocks per pixel, channels / lanes * kernel columns, are nearest to the reuse factor."""
    columns, channels = layer.window.kernel[1], layer.x.channels
    return min(divisors(channels), key=lambda lanes: (abs(channels // lanes * columns - layer.reuse_factor), -lanes))


def _taken(layer: Depthwise) -> int:
    return layer.x.channels // depthwise_lanes(layer) * layer.window.kernel[1]


def _choices(layer: Depthwise) -> dict[int, int]:
    channels, columns = layer.x.channels, layer.window.kernel[1]
    pixels = layer.y.size // channels
    by_lanes = {lanes: channels // lanes * columns for lanes in divisors(channels)}
    return {factor: max(pixels * factor, least_interval(layer.x, layer.window, lanes)) for lanes, factor in by_lanes.items()}


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Depthwise) -> None:
    lanes = depthwise_lanes(layer)
    x = add_window(plan, layer, layer.window, lanes)
    plan.finish(layer, depthwise_stage(plan.stage_name(layer.name), layer, x, plan.result(layer, lanes)))


def depthwise_stage(name: str, layer: Depthwise, x: Stream, y: Stream) -> Stage:
    """Return the rf_depthwise stage after a window stage with the same lanes."""
    lanes, channels, seen = y.lanes, layer.x.channels, layer.window
    width = signed_width(layer.weight.raw)
    rows, columns = seen.kernel
    weights = layer.weight.raw.reshape(rows, columns, channels // lanes, lanes).transpose(2, 1, 0, 3)
    parameters: dict[str, Value] = {
        "LANES": lanes, "K_H": rows, "K_W": columns, "CHANNEL_BEATS": channels // lanes,
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "W_WIDTH": width,
        **arithmetic(layer.x.precision, layer.weight, layer.accum, layer.y.precision),
        "WEIGHTS": f"{name}.weights.mem", "BIAS": f"{name}.bias.mem",
    }  # fmt: skip
    memories = (
        Memory(f"{name}.weights.mem", weights.reshape(-1, rows * lanes), (width,)),
        bias_memory(f"{name}.bias.mem", cast_all(layer.bias, layer.accum).reshape(channels // lanes, lanes), layer.accum),
    )
    timing = Timing((groups(y.beats, columns),), DEPTHWISE_CLOCKS + (rows - 1).bit_length(), columns, x.beats)
    multiplications = layer.y.size * seen.size
    return Stage(
        name, "rf_depthwise", layer.name, parameters, (x,), (y,), timing, memories,
        multipliers=rows * lanes, multiplications=multiplications,
    )  # fmt: skip


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    lanes, rows, x = (numbers[key] for key in ("LANES", "K_H", "X_WIDTH"))
    accumulator = numbers["ACC_WIDTH"]
    lane = tree_cost(numbers, rows, every_level=True) + Amounts(accumulator, accumulator + rows * x)
    ends = flow_cost(lanes * numbers["Y_WIDTH"], 7 + rows.bit_length())
    return (
        (lane + cast_cost(accumulator, numbers)).times(lanes)
        + ends
        + roms_cost(memory.shape for memory in stage.memories)
        + Amounts(lut=30, ff=30)
    )


def _check(layer: Depthwise) -> None:
    check_accumulator(layer.name, layer.x.precision, layer.weight, layer.bias, layer.accum)


STAGE = StageType(
    ("rf_depthwise",),
    _cost,
    (product, accumulator, shift),
    LayerPlan(
        Depthwise, _plan, check=_check, sharing=Sharing(_taken, lambda layer: layer.y.size // layer.y.channels, _choices)
    ),
)
