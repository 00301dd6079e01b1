# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last dimension, as rf_softmax."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, Constants, FixedPoint, Overflow
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, dsps, fifo_cost, flow_cost, rom_cost, skid_cost
from hypersonic.hls.rf.layers import OneInput, Tensor
from hypersonic.hls.rf.parts.attributes import NONE, fixed, precision, refuse
from hypersonic.hls.rf.parts.casts import cast_all, raw_array, result_parameters, signed_width
from hypersonic.hls.rf.parts.limits import MAX_BOUND_WIDTH, MAX_CAST_WIDTH, Numbers, Width, accumulator, shift
from hypersonic.hls.rf.parts.tables import exp_values, inverse_values
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value
from hypersonic.hls.rf.stage_type import LayerType, Planner, StageType


class SoftmaxKind(StrEnum):
    """hls4ml's names of its implementations."""

    STABLE = "stable"
    LATENCY = "latency"
    ARGMAX = "argmax"


@dataclass(frozen=True, eq=False)
class Softmax(OneInput):
    """Softmax over the last dimension; softmax_stable, softmax_latency and softmax_argmax of nnet_activation.h.

    stable: d = max(x) - x, cast to `normalised`; e = accum(exp_table[top bits of d]). latency: e = accum(exp_table[top bits of
    x]). For both, the sum of e is cast to accum at every step of a balanced tree, then to `inverse_input`, and
    y = result(e * inv_table[top bits of the sum]). argmax: 1 at the first maximum, 0 elsewhere.
    exp_table, inv_table: raw integers of their own types.
    """

    kind: SoftmaxKind
    normalised: FixedPoint
    accum: FixedPoint
    inverse_input: FixedPoint
    exp_table: Constants
    inv_table: Constants


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> Softmax:
    """Read hls4ml's Softmax over the last dimension, with the tables' types and sizes that its template gives."""
    kind = _kind(layer, x)
    if kind is SoftmaxKind.ARGMAX:
        one = FixedPoint.with_fraction(1, 0, False)
        return Softmax(layer.name, x, y, kind, one, one, one, NONE, NONE)
    size = int(layer.get_attr("table_size") or 1024)
    exp_size, inv_size = (int(layer.get_attr(f"{name}_table_size") or size) for name in ("exp", "inv"))
    exp_type, inv_type, accum = (precision(layer, name) for name in ("exp_table_t", "inv_table_t", "accum_t"))
    inverse = exp_type if layer.get_attr("inv_inp_t").name == "model_default_t" else precision(layer, "inv_inp_t")
    for what, table in (("exp_table_t", exp_type), ("inv_table_t", inv_type)):
        fixed(layer, table, what)
    normalised, exp_size = _normalised(layer, x.precision, kind, (exp_size, inv_size))
    for what, entries, width in (("exp", exp_size, normalised.width), ("inv", inv_size, inverse.width)):
        if entries & (entries - 1) or entries > 1 << width:
            raise refuse(layer, f"its {what} table has {entries} entries, expected a power of two up to {1 << width}")
    scale = float(layer.get_attr("exp_scale", 1.0) or 1.0)
    exp = exp_values(normalised, exp_size, exp_type, negative=kind is SoftmaxKind.STABLE, scale=scale)
    _check_exponentials(layer, exp, exp_type, accum, x.channels)
    return Softmax(layer.name, x, y, kind, normalised, accum, inverse, exp, inverse_values(inverse, inv_size, inv_type))


def _kind(layer: Any, x: Tensor) -> SoftmaxKind:
    """Return the implementation. Raises UnsupportedLayerError for options that rf_softmax lacks or that do not compile."""
    kind = str(layer.get_attr("implementation")).lower()
    if kind not in tuple(SoftmaxKind):
        raise refuse(layer, f"implementation is {kind}, expected {', '.join(SoftmaxKind)}")
    if int(layer.get_attr("n_inner", 1) or 1) != 1 or str(layer.get_attr("axis", -1)) not in ("-1", str(len(x.shape))):
        raise refuse(layer, f"axis is {layer.get_attr('axis')}, expected the last one")
    if str(layer.get_attr("activation")) != "softmax":
        raise refuse(layer, "hls4ml 1.3.0 writes C++ for a Softmax layer that does not compile; use Activation('softmax')")
    return SoftmaxKind(kind)


def _normalised(layer: Any, x: FixedPoint, kind: SoftmaxKind, sizes: tuple[int, int]) -> tuple[FixedPoint, int]:
    """Return the type that addresses the table of exponentials, and the table's size. sizes: of both tables."""
    if kind is SoftmaxKind.LATENCY:
        return x, sizes[0]
    if layer.get_attr("inp_norm_t") is not None:
        return precision(layer, "inp_norm_t"), sizes[0]
    width = x.width - x.signed
    return FixedPoint.with_fraction(width, x.fraction, signed=False), min(sizes[1], 1 << width) if x.signed else sizes[0]


def _check_exponentials(layer: Any, exp: Constants, exp_type: FixedPoint, accum: FixedPoint, classes: int) -> None:
    """Raise UnsupportedLayerError if the result depends on the order of the sum."""
    if accum.overflow is Overflow.WRAP:
        return
    greatest = accum.cast(int(exp.raw.max()), exp.fraction)
    if accum.overflow is Overflow.SAT_ZERO and greatest * classes > accum.max_raw:
        raise refuse(layer, f"accum is {accum} and the sum of {classes} exponentials can leave its range: use AP_SAT")
    if int(exp.raw.min()) < 0:
        raise refuse(layer, f"its table of exponentials wraps in {exp_type}: give exp_table more integer bits, or AP_SAT")


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Softmax) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, layer.x.channels)
    plan.finish(layer, softmax_stage(name, layer, x, plan.result(layer, x.lanes)))


def softmax_stage(name: str, layer: Softmax, x: Stream, y: Stream) -> Stage:
    """Return the rf_softmax stage, for each vector of the last dimension."""
    beats, levels = layer.x.channels // x.lanes, (x.lanes - 1).bit_length()
    to, accum = y.precision, layer.accum
    parameters: dict[str, Value] = {
        "N": layer.x.channels, "LANES": x.lanes, "IMPLEMENTATION": _IMPLEMENTATIONS[layer.kind],
        "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "Y_WIDTH": to.width, "Y_SIGNED": int(to.signed),
    }  # fmt: skip
    memories: tuple[Memory, ...] = ()
    if layer.kind is SoftmaxKind.ARGMAX:
        parameters["ONE"] = to.cast(1, 0)
    else:
        memories = _tables(name, layer)
        parameters |= {**_types(layer), "EXP_FILE": memories[0].file, "INVERSE_FILE": memories[1].file}
        parameters |= result_parameters(accum.fraction + layer.inv_table.fraction, to)
    latency = {
        SoftmaxKind.STABLE: 2 * levels + 25 + beats,
        SoftmaxKind.LATENCY: levels + 19,
        SoftmaxKind.ARGMAX: levels + 5,
    }[layer.kind]
    needs = np.repeat(np.arange(y.beats // beats) + 1, beats) * beats - 1
    timing = Timing((needs.astype(np.int64),), latency, 1, y.beats)
    multipliers = 0 if layer.kind is SoftmaxKind.ARGMAX else x.lanes
    return Stage(
        name, "rf_softmax", layer.name, parameters, (x,), (y,), timing, memories,
        multipliers=multipliers, multiplications=layer.y.size if multipliers else 0,
    )  # fmt: skip


_IMPLEMENTATIONS = {SoftmaxKind.LATENCY: 0, SoftmaxKind.STABLE: 2, SoftmaxKind.ARGMAX: 3}


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
    held = fifo_cost(lanes * x + 1, 1 << max(1, (2 * beats + 4).bit_length())) + Amounts(
        lut=lanes * x + 25, ff=lanes * 2 * x + 60
    )
    if "EXP_SIZE" not in numbers:
        return held + skid_cost(lanes * y + 1) + Amounts(lut=8 * lanes)
    exp, inverse = (rom_cost(numbers[f"{table}_SIZE"], numbers[f"{kind}_WIDTH"]) for table, kind in _TABLES)
    accumulator, factor = numbers["ACC_WIDTH"], numbers["FACTOR_WIDTH"]
    lane = exp + Amounts(lut=x, ff=3 * x + 5 * accumulator, dsp=dsps(accumulator + 1, factor + 1))
    lane += cast_cost(accumulator + factor, numbers)
    again = fifo_cost(lanes * accumulator + 1, 1 << max(4, (2 * beats + 16).bit_length()))
    flows = flow_cost(lanes * accumulator, 5) + flow_cost(lanes * y, 4)
    return held + again + flows + inverse + lane.times(lanes) + Amounts(lut=2 * accumulator + 20, ff=6 * accumulator + 60)


_TABLES = (("EXP", "ACC"), ("INVERSE", "FACTOR"))


def _difference(numbers: Numbers) -> Width:
    """Width of the input of rf_cast: the difference to the maximum, or x itself."""
    stable = numbers["IMPLEMENTATION"] == _IMPLEMENTATIONS[SoftmaxKind.STABLE]
    return Width(numbers["X_WIDTH"] + stable, MAX_CAST_WIDTH, "a difference")


def _normalised_input(numbers: Numbers) -> Width:
    return Width(numbers.get("NORM_WIDTH", 1), MAX_CAST_WIDTH, "a normalised input")


def _inverse_input(numbers: Numbers) -> Width:
    return Width(numbers.get("INVERSE_WIDTH", 1), MAX_CAST_WIDTH, "an inverse's input")


def _one(numbers: Numbers) -> Width:
    return Width(numbers.get("ONE", 1).bit_length() + 1, MAX_BOUND_WIDTH, "a one")


def _scaled(numbers: Numbers) -> Width:
    return Width(numbers.get("ACC_WIDTH", 1) + numbers.get("FACTOR_WIDTH", 1) + 2, MAX_CAST_WIDTH, "a product")


STAGE = StageType(
    ("rf_softmax",),
    _cost,
    (_difference, _normalised_input, _inverse_input, _scaled, accumulator, _one, shift),
    LayerType(Softmax, _plan, {"Softmax": _read}),
    long=("ONE",),
)
