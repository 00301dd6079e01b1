# SPDX-License-Identifier: Apache-2.0
"""axis_fifo: FIFOs in front of joins and behind ports."""

from __future__ import annotations

from collections.abc import Iterator

from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import fifo_cost
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Numbers
from hypersonic.hls.rf.stage import Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import StageType


def fifo_stage(name: str, layer: str, x: Stream, y: Stream, depth: int) -> Stage:
    """Return the axis_fifo stage for `depth` beats; tlast is one more bit of its data."""
    bits = depth * (x.width + 1)
    parameters: dict[str, Value] = {"WIDTH": x.width + 1, "DEPTH": depth}
    return Stage(name, "axis_fifo", layer, parameters, (x,), (y,), one_to_one(x.beats, 2), ram_bits=bits)


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    return fifo_cost(numbers["WIDTH"], numbers["DEPTH"])


def _text(stage: Stage) -> Iterator[str]:
    x, y = stage.inputs[0].name, stage.outputs[0].name
    yield "  axis_fifo #("
    yield f"      {', '.join(f'.{key}({value})' for key, value in stage.parameters.items())}"
    yield f"  ) u_{stage.name} ("
    yield "      .clk(clk), .rst_n(rst_n),"
    yield f"      .s_axis_tvalid({x}_tvalid), .s_axis_tready({x}_tready), .s_axis_tdata({{{x}_tlast, {x}_tdata}}),"
    yield f"      .m_axis_tvalid({y}_tvalid), .m_axis_tready({y}_tready), .m_axis_tdata({{{y}_tlast, {y}_tdata}})"
    yield "  );"


STAGE = StageType(("axis_fifo",), _cost, NO_LIMIT, text=_text)
