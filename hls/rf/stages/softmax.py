# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last dimension, as rf_softmax; with the strategy argmax, as rf_argmax."""

from __future__ import annotations

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, Overflow
from hypersonic.hls.network.layers.softmax import Softmax, SoftmaxKind
from hypersonic.hls.network.raw import cast_all, raw_array, signed_width
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, fifo_cost, flow_cost, operands_cost, rom_cost
from hypersonic.hls.rf.needs import vectors
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Numbers, Width, accumulator, shift
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType
from hypersonic.hls.rf.stages.argmax import argmax_stage, held_cost


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Softmax) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.channels)
    stage = argmax_stage if layer.kind is SoftmaxKind.ARGMAX else softmax_stage
    plan.finish(layer, stage(name, layer, x, plan.result(layer, x.lanes)))


def softmax_stage(name: str, layer: Softmax, x: Stream, y: Stream) -> Stage:
    """Return the rf_softmax stage, for each vector of the last dimension."""
    beats, levels = layer.x.channels // x.lanes, (x.lanes - 1).bit_length()
    stable, accum = layer.kind is SoftmaxKind.STABLE, layer.accum
    exp, inverse = _tables(name, layer)
    parameters: dict[str, Value] = {
        "N": layer.x.channels, "LANES": x.lanes, "STABLE": int(stable),
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), **_types(layer),
        "EXP_FILE": exp.file, "INVERSE_FILE": inverse.file,
        **result_parameters(accum.fraction + layer.inv_table.fraction, y.precision),
    }  # fmt: skip
    timing = Timing((vectors(y.beats // beats, beats, beats),), 2 * levels + 25 + beats if stable else levels + 19, 1, y.beats)
    return Stage(
        name, "rf_softmax", layer.name, parameters, (x,), (y,), timing, (exp, inverse),
        multipliers=x.lanes, multiplications=layer.y.size,
    )  # fmt: skip


def _tables(name: str, layer: Softmax) -> tuple[Memory, Memory]:
    """Return the memories of exponentials, cast to accum, and of inverses."""
    exp, accum = layer.exp_table, layer.accum
    words = raw_array(cast_all(exp, accum), accum.width).reshape(-1, 1)
    inverses = layer.inv_table.raw.reshape(-1, 1)
    return Memory(f"{name}.exp.mem", words, (accum.width,)), Memory(f"{name}.inverse.mem", inverses, (signed_width(inverses),))


def _types(layer: Softmax) -> dict[str, Value]:
    norm, accum, inverse = layer.normalised, layer.accum, layer.inverse_input
    return {
        "NORM_SHIFT": layer.x.precision.fraction - norm.fraction, "NORM_WIDTH": norm.width, "NORM_SIGNED": int(norm.signed),
        "NORM_ROUNDING": ROUNDING_CODES[norm.rounding], "NORM_OVERFLOW": OVERFLOW_CODES[norm.overflow],
        "EXP_SIZE": len(layer.exp_table.raw),
        "ACC_WIDTH": accum.width, "ACC_SIGNED": int(accum.signed), "ACC_SATURATE": int(accum.overflow is not Overflow.WRAP),
        "INVERSE_SHIFT": accum.fraction - inverse.fraction, "INVERSE_WIDTH": inverse.width,
        "INVERSE_SIGNED": int(inverse.signed), "INVERSE_ROUNDING": ROUNDING_CODES[inverse.rounding],
        "INVERSE_OVERFLOW": OVERFLOW_CODES[inverse.overflow], "INVERSE_SIZE": len(layer.inv_table.raw),
        "FACTOR_WIDTH": signed_width(layer.inv_table.raw), "FACTOR_SIGNED": 1,
    }  # fmt: skip


def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    lanes, n, x, y = numbers["LANES"], numbers["N"], numbers["X_WIDTH"], numbers["Y_WIDTH"]
    beats = n // lanes
    exp, inverse = (rom_cost(numbers[f"{table}_SIZE"], numbers[f"{kind}_WIDTH"]) for table, kind in _TABLES)
    accumulator, factor = numbers["ACC_WIDTH"], numbers["FACTOR_WIDTH"]
    lane = exp + Amounts(lut=x, ff=3 * x + 3 * accumulator) + operands_cost(accumulator + 1, factor + 1)
    lane += cast_cost(accumulator + factor, numbers)
    again = fifo_cost(lanes * accumulator + 1, 1 << max(4, (2 * beats + 16).bit_length()))
    flows = flow_cost(lanes * accumulator, 5) + flow_cost(lanes * y, 4)
    return (
        held_cost(numbers)
        + again
        + flows
        + inverse
        + lane.times(lanes)
        + Amounts(lut=(lanes - 1) * (accumulator + n.bit_length()) + 2 * accumulator + 20, ff=6 * accumulator + 60)
    )


_TABLES = (("EXP", "ACC"), ("INVERSE", "FACTOR"))


def _difference(numbers: Numbers) -> Width:
    """Width of the input of fixed_cast: the difference to the maximum, or x itself."""
    return Width(numbers["X_WIDTH"] + numbers["STABLE"], MAX_CAST_WIDTH, "a difference")


def _normalised_input(numbers: Numbers) -> Width:
    return Width(numbers["NORM_WIDTH"], MAX_CAST_WIDTH, "a normalised input")


def _inverse_input(numbers: Numbers) -> Width:
    return Width(numbers["INVERSE_WIDTH"], MAX_CAST_WIDTH, "an inverse's input")


def _scaled(numbers: Numbers) -> Width:
    return Width(numbers["ACC_WIDTH"] + numbers["FACTOR_WIDTH"] + 2, MAX_CAST_WIDTH, "a product")


STAGE = StageType(
    ("rf_softmax",),
    _cost,
    (_difference, _normalised_input, _inverse_input, _scaled, accumulator, shift),
    LayerPlan(Softmax, _plan),
)
