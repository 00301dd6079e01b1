# SPDX-License-Identifier: Apache-2.0
"""Quantisers of HGQ2, which cast each element to a type of its own, as rf_quantise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Overflow, Rounding
from hypersonic.hls.network.attributes import unsupported
from hypersonic.hls.network.layers.quantise import ElementType, Quantise
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, flow_cost, roms_cost
from hypersonic.hls.rf.parts.casts import result_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, Numbers, Width, shift
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Value, one_to_one
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, StageType

#: what rf_quantise computes
_ROUNDINGS = (Rounding.TRN, Rounding.RND, Rounding.RND_CONV)
_OVERFLOWS = (Overflow.WRAP, Overflow.SAT, Overflow.SAT_SYM)

#: latency of rf_quantise; includes two clocks of the output FIFO
_CLOCKS = 7


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Quantise) -> None:
    name = plan.stage_name(layer.name)
    x = plan.take_elements(layer.x, _period(layer.types))
    plan.finish(layer, quantise_stage(name, layer, x, plan.result(layer, x.lanes)))


def _period(types: Sequence[ElementType]) -> int:
    """Return the fewest elements after which the types repeat."""
    size = len(types)
    return next(n for n in range(1, size + 1) if size % n == 0 and list(types) == list(types[:n]) * (size // n))


def quantise_stage(name: str, layer: Quantise, x: Stream, y: Stream) -> Stage:
    """Return the rf_quantise stage."""
    kinds = [kind for kind in layer.types if kind]
    fraction = max([x.precision.fraction, *(kind.fraction for kind in kinds)])
    left = fraction - x.precision.fraction
    width = max([x.precision.width + left + 2, *(kind.integer + fraction + 2 for kind in kinds)])
    saturate = any(kind.overflow is not Overflow.WRAP for kind in kinds)
    period = max(_period(layer.types) // x.lanes, 1)
    fields = [field for kind in layer.types[: period * x.lanes] for field in _fields(kind, fraction, width)]
    words: NDArray[Any] = np.array(fields, dtype=object).reshape(period, -1)
    memory = Memory(f"{name}.types.mem", words, (width,))
    parameters: dict[str, Value] = {
        "LANES": x.lanes, "X_WIDTH": x.precision.width, "X_SIGNED": int(x.precision.signed), "LEFT": left, "V_WIDTH": width,
        "SATURATE": int(saturate), "PERIOD": period, "FILE": memory.file, **result_parameters(fraction, layer.y.precision),
    }  # fmt: skip
    return Stage(name, "rf_quantise", layer.name, parameters, (x,), (y,), one_to_one(x.beats, _CLOCKS), (memory,))


def _fields(kind: ElementType, fraction: int, width: int) -> tuple[int, int, int, int, int]:
    """Return add, keep, odd, low and high of an element's type, in units of 2**-fraction (rf_quantise.sv)."""
    if kind is None:
        return 0, 0, 0, 0, 0
    lost = fraction - kind.fraction  # bits that are rounded away
    half = 1 << lost >> 1
    convergent = kind.rounding is Rounding.RND_CONV and lost > 0
    add = 0 if kind.rounding is Rounding.TRN else half - convergent
    kept = (1 << width) - (1 << lost)
    if kind.overflow is Overflow.WRAP:
        sign = 1 << kind.width - 1 + lost if kind.signed else 0
        return add, kept & ((1 << kind.width + lost) - 1), convergent << lost, sign, 0
    return add, kept, convergent << lost, kind.least_raw << lost, kind.max_raw << lost


def _cost(stage: Stage, numbers: Numbers) -> Amounts:
    width, lanes, saturate = numbers["V_WIDTH"], numbers["LANES"], numbers["SATURATE"]
    # two additions and the choice of bits; with bounds, two comparisons
    lane = Amounts(lut=(4.7 if saturate else 4.3) * width, ff=numbers["X_WIDTH"] + 1 + (3 + saturate) * width)
    lane += cast_cost(width, numbers)
    memories = roms_cost(memory.shape for memory in stage.memories)
    return lane.times(lanes) + flow_cost(lanes * numbers["Y_WIDTH"], _CLOCKS - 2) + memories + Amounts(lut=10, ff=8)


def _number(numbers: Numbers) -> Width:
    return Width(numbers["V_WIDTH"], MAX_CAST_WIDTH, "a number")


def _check(layer: Quantise) -> None:
    for kind in set(layer.types):
        if kind and (kind.rounding not in _ROUNDINGS or kind.overflow not in _OVERFLOWS):
            expected = f"{', '.join(_ROUNDINGS)} and {', '.join(_OVERFLOWS)}"
            raise unsupported(layer.name, f"it quantises to {kind}, expected the modes {expected}")


STAGE = StageType(("rf_quantise",), _cost, (_number, shift), LayerPlan(Quantise, _plan, check=_check))
