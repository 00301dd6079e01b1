# SPDX-License-Identifier: Apache-2.0
"""rf_window: a line buffer in front of convolutions and pooling, with pixels in and the window of each output pixel out."""

from __future__ import annotations

from hypersonic.hls.network.base import OneInput, Tensor, Window
from hypersonic.hls.network.windows import window_shape
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import flow_cost, memory_cost
from hypersonic.hls.rf.parts.limits import MAX_BOUND_WIDTH, Numbers, Width
from hypersonic.hls.rf.parts.windows import enough_lines, fewest_lines, window_needs
from hypersonic.hls.rf.stage import Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import Planner, StageType

#: clocks from the edge that accepts the last input beat that an output beat needs to the edge at which that can be accepted
WINDOW_CLOCKS = 5


def add_window(plan: Planner, layer: OneInput, seen: Window, lanes: int, pad_value: int = 0) -> Stream:
    """Add a window stage for the layer's input; return its output, with `lanes` elements of every kernel row per beat."""
    tensor = layer.x
    x = plan.with_lanes(plan.take(tensor), lanes, layer.name)
    height, width = window_shape(tensor, seen)
    beats = tensor.images * height * width * (tensor.channels // lanes) * seen.kernel[1]
    y = Stream(plan.stream_name(f"s_{layer.y.name}_window"), tensor.precision, lanes * seen.kernel[0], beats)
    name = plan.stage_name(f"{layer.name}_window")
    sketched = plan.weight_widths is not None
    kept = enough_lines(tensor, seen, lanes) if sketched else fewest_lines(tensor, seen, lanes, plan.interval)
    plan.add(window_stage(name, layer.name, x, tensor, seen, pad_value, y, kept))
    return y


def window_stage(
    name: str, layer: str, x: Stream, tensor: Tensor, seen: Window, pad_value: int, y: Stream, kept: tuple[int, int]
) -> Stage:
    """Return the rf_window stage.

    Args:
        kept: lines of memory and the clocks from row to row with them (fewest_lines).
    """
    height, width, channels = tensor.image
    out_height, out_width = window_shape(tensor, seen)
    lines, ii = kept
    parameters: dict[str, Value] = {
        "LANES": x.lanes, "WIDTH": x.precision.width, "H": height, "W": width, "C": channels,
        "K_H": seen.kernel[0], "K_W": seen.kernel[1], "S_H": seen.stride[0], "S_W": seen.stride[1],
        "PAD_TOP": seen.pad_top, "PAD_LEFT": seen.pad_left, "OUT_H": out_height, "OUT_W": out_width,
        "PAD_VALUE": pad_value, "LINES": lines, "IMAGES": tensor.images,
    }  # fmt: skip
    timing = Timing((window_needs(tensor, seen, channels // x.lanes),), WINDOW_CLOCKS, 1, ii)
    bits = lines * width * channels * x.precision.width
    return Stage(name, "rf_window", layer, parameters, (x,), (y,), timing, ram_bits=bits)


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    beat, rows, lines = numbers["LANES"] * numbers["WIDTH"], numbers["K_H"], numbers["LINES"]
    kept = memory_cost(numbers["W"] * numbers["C"] // numbers["LANES"], beat).times(lines)
    picked = Amounts(lut=rows * (beat * max(1, lines / 4) + lines), ff=rows * beat)
    return kept + picked + flow_cost(rows * beat, 2) + Amounts(lut=160, ff=105)


def _element(numbers: Numbers) -> Width:
    return Width(numbers["WIDTH"], MAX_BOUND_WIDTH, "an element")


STAGE = StageType(("rf_window",), _cost, (_element,), long=("PAD_VALUE",))
