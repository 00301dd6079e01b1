# SPDX-License-Identifier: Apache-2.0
"""The part of an LSTM or a GRU that keeps the state, as rf_recurrent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES
from hypersonic.hls.network.layers.recurrent import Cell, Recurrent
from hypersonic.hls.network.layers.table import Table
from hypersonic.hls.network.raw import cast_all, signed_width
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.cost import cast_cost, dsps, flow_cost, lookup_cost, memory_cost, roms_cost, skid_cost
from hypersonic.hls.rf.needs import divisors, each
from hypersonic.hls.rf.parts.casts import accumulator_parameters
from hypersonic.hls.rf.parts.limits import MAX_CAST_WIDTH, MAX_INDEX_FRACTION, Numbers, Width, accumulator
from hypersonic.hls.rf.parts.limits import product as limit_of_product
from hypersonic.hls.rf.parts.products import bias_memory, check_accumulator
from hypersonic.hls.rf.stage import Memory, Stage, Stream, Timing, Value, spaced
from hypersonic.hls.rf.stage_type import LayerPlan, Planner, Sharing, StageType
from hypersonic.hls.rf.stages.dense import MAC_CLOCKS, mac_cost, tree_registers
from hypersonic.hls.rf.wires.fifo import fifo_stage

#: clocks of rf_cell, from a beat of gates to the new state
_CELL_CLOCKS = {Cell.LSTM: 24, Cell.GRU: 27}


# ---------------------------------------------------------------- multipliers
@dataclass(frozen=True)
class Shape:
    """p numbers of the state times all gates of `lanes` units per clock."""

    p: int
    lanes: int


@cache
def _shapes(units: int) -> dict[int, Shape]:
    """Return the shapes by clocks per step: of those with the same, the one with the fewest units in parallel."""
    shapes = [Shape(p, n) for n in divisors(units) for p in divisors(units) if p % n == 0 or n % p == 0]
    found: dict[int, Shape] = {}
    for shape in shapes:
        found.setdefault((units // shape.p) * (units // shape.lanes), shape)
    return found


def recurrent_shapes(layer: Recurrent) -> dict[int, Shape]:
    """Return the possible shapes by reuse factor: clocks of the products of one step."""
    return _shapes(layer.units)


def _taken(layer: Recurrent) -> int:
    wanted = layer.reuse_factor
    return min(recurrent_shapes(layer), key=lambda factor: (abs(factor - wanted), factor))


def _choices(layer: Recurrent) -> dict[int, int]:
    return {factor: layer.steps * step_clocks(layer, shape) for factor, shape in recurrent_shapes(layer).items()}


# ---------------------------------------------------------------- clocks
@dataclass(frozen=True, eq=False)
class LoopTiming(Timing):
    """Clocks of rf_recurrent, whose every step waits for the one before. gap: of the products of one step.

    Attributes:
        steps: time steps of a row.
        beats: of a step.
        turn: clocks from the last beat of gates of a step to the first of the next.
        start: offsets (beats,) of the first step's beats, whose products with the state are there already.
    """

    steps: int
    beats: int
    turn: int
    start: NDArray[np.int64]

    def departures(self, arrivals: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
        """Return the clock edges at which the output beats can be accepted, as Timing does."""
        index = np.arange(self.beats, dtype=np.int64)
        taken: list[NDArray[np.int64]] = []
        for ready in arrivals[0].reshape(self.steps, self.beats):
            if taken:
                taken.append(spaced(np.maximum(ready, taken[-1][-1] + self.turn + index * self.gap), index))
            else:
                taken.append(spaced(ready, self.start))
        return np.concatenate(taken)[-len(self.needs[0]) :] + self.latency


def _mac_clocks(layer: Recurrent, shape: Shape) -> int:
    """Return the latency of the rf_mac inside, without its vector buffer."""
    shift = layer.y.precision.fraction + layer.weight.fraction - layer.accum.fraction
    width = signed_width(layer.weight.raw)
    return MAC_CLOCKS + tree_registers(shape.p, layer.y.precision.width, width, shift, layer.accum)


def _cell_clocks(layer: Recurrent) -> int:
    """Return the clocks from a beat of gates to its result, behind a FIFO and an rf_fork."""
    return _CELL_CLOCKS[layer.cell] + 2 + 1


def _turn(layer: Recurrent, shape: Shape) -> int:
    """Return the clocks from the last beat of gates of a step to the first of the next, through rf_lanes and rf_mac."""
    lanes = 0 if shape.lanes == shape.p else 1 if shape.lanes < shape.p else 1 + shape.lanes // shape.p
    return _cell_clocks(layer) + lanes + _mac_clocks(layer, shape) + (layer.units > shape.lanes)


def step_clocks(layer: Recurrent, shape: Shape) -> int:
    """Return the clocks from one time step to the next."""
    return (layer.units // shape.lanes - 1) * (layer.units // shape.p) + _turn(layer, shape)


def _timing(layer: Recurrent, shape: Shape) -> Timing:
    beats, gap, mac = layer.units // shape.lanes, layer.units // shape.p, _mac_clocks(layer, shape)
    kept = 1 << mac.bit_length()  # results that rf_mac's output FIFO holds
    index = np.arange(beats, dtype=np.int64)
    start = np.maximum(index, np.where(index < kept, 0, mac + (index - kept) * gap))
    needs = each(layer.steps * beats)
    needs = needs if layer.sequences else needs[-beats:]
    ii = layer.steps * step_clocks(layer, shape)
    return LoopTiming((needs,), _cell_clocks(layer), gap, ii, layer.steps, beats, _turn(layer, shape), start)


# ---------------------------------------------------------------- in RTL
def _plan(plan: Planner, layer: Recurrent) -> None:
    shape = recurrent_shapes(layer)[_taken(layer)]
    gates = plan.with_lanes(plan.take(layer.x), shape.lanes * layer.cell, layer.name)
    beats = layer.units // shape.lanes
    # the products of the next step are computed while this one waits for its state
    kept = Stream(plan.stream_name(f"{gates.name}_kept"), gates.precision, gates.lanes, gates.beats)
    name = plan.stage_name(f"{layer.name}_fifo")
    plan.add(fifo_stage(name, layer.name, gates, kept, 1 << max(1, beats.bit_length())))
    stage = recurrent_stage(plan.stage_name(layer.name), layer, kept, plan.result(layer, shape.lanes), shape)
    plan.finish(layer, stage)


def recurrent_stage(name: str, layer: Recurrent, x: Stream, y: Stream, shape: Shape) -> Stage:
    """Return the rf_recurrent stage."""
    gates, p, lanes, units = int(layer.cell), shape.p, shape.lanes, layer.units
    accum, state = layer.accum, layer.y.precision
    groups, blocks, width = units // lanes, units // p, signed_width(layer.weight.raw)
    weights = layer.weight.raw.reshape(blocks, p, groups, lanes * gates).transpose(2, 0, 3, 1).reshape(groups * blocks, -1)
    bias = cast_all(layer.bias, accum).reshape(groups, lanes * gates)
    memories = [
        Memory(f"{name}.weights.mem", weights, (width,)),
        bias_memory(f"{name}.bias.mem", bias, accum),
        *(
            Memory(f"{name}.{what}.mem", table.values.raw.reshape(-1, 1), (accum.width,))
            for what, table in (("gate", layer.gate), ("act", layer.act))
        ),
    ]
    products = accumulator_parameters(state.fraction + layer.weight.fraction, accum)
    parameters: dict[str, Value] = {
        "GRU": int(layer.cell is Cell.GRU), "N_SEQUENCE": layer.steps, "N_STATE": units, "LANES": lanes, "P": p,
        "SEQUENCES": int(layer.sequences), "W_WIDTH": width, **products, "WEIGHTS": memories[0].file, "BIAS": memories[1].file,
        "ACC_FRACTION": accum.fraction, "ACC_ROUNDING": ROUNDING_CODES[accum.rounding],
        "ACC_OVERFLOW": OVERFLOW_CODES[accum.overflow],
        "Y_WIDTH": state.width, "Y_SIGNED": int(state.signed), "Y_FRACTION": state.fraction,
        "ROUNDING": ROUNDING_CODES[state.rounding], "OVERFLOW": OVERFLOW_CODES[state.overflow],
        **dict(_table_parameters("GATE", layer.gate, memories[2].file)),
        **dict(_table_parameters("ACT", layer.act, memories[3].file)),
    }  # fmt: skip
    return Stage(
        name, "rf_recurrent", layer.name, parameters, (x,), (y,), _timing(layer, shape), tuple(memories),
        multipliers=lanes * (p * gates + 3), multiplications=layer.steps * units * (units * gates + 3),
        ram_bits=units * state.width,
    )  # fmt: skip


def _table_parameters(prefix: str, table: Table, file: str) -> Iterator[tuple[str, Value]]:
    yield f"{prefix}_SIZE", len(table.values.raw)
    yield f"{prefix}_SPAN", table.span_log2
    yield f"{prefix}_PASS", int(table.negative_only)
    yield f"{prefix}_FILE", file


def _widths(numbers: Numbers) -> tuple[int, int]:
    """Return the widths of the product of gates or of a gate and a rest, and of the sum that becomes the state."""
    a, h, fraction = numbers["ACC_WIDTH"] + 1, numbers["Y_WIDTH"] + 1, numbers["ACC_FRACTION"]
    finer = max(fraction, numbers["Y_FRACTION"])
    factor = max(numbers["ACC_WIDTH"], fraction + 1) + 2 if numbers["GRU"] else a
    return a + factor, max(a + factor + finer - fraction, h + a + finer - numbers["Y_FRACTION"]) + 1


def _state(numbers: Numbers) -> Width:
    return Width(max(_widths(numbers)), MAX_CAST_WIDTH, "a sum of products")


def _index(numbers: Numbers) -> Width:
    finer = max(numbers["ACC_FRACTION"], numbers["Y_FRACTION"])
    return Width(finer + max(numbers["GATE_SPAN"], numbers["ACT_SPAN"]), MAX_INDEX_FRACTION, "an index's fraction")


def _product(numbers: Numbers) -> Width:
    return limit_of_product({"X_WIDTH": numbers["Y_WIDTH"], "W_WIDTH": numbers["W_WIDTH"]})


# ---------------------------------------------------------------- cost
def _cost(_stage: Stage, numbers: Numbers) -> Amounts:
    cell, lanes, units, accum, state = (
        _cell(numbers),
        numbers["LANES"],
        numbers["N_STATE"],
        numbers["ACC_WIDTH"],
        numbers["Y_WIDTH"],
    )
    groups, blocks = units // lanes, units // numbers["P"]
    mac = {
        **{key: numbers[key] for key in ("P", "W_WIDTH", "PRODUCT_SHIFT", "ACC_WIDTH")}, "N_IN": units, "N_OUT": units * cell,
        "Q": lanes * cell, "X_WIDTH": state, "X_SIGNED": numbers["Y_SIGNED"], "Y_WIDTH": accum, "RESULT_SHIFT": 0,
    }  # fmt: skip
    roms = [(groups * blocks, lanes * cell * numbers["P"] * numbers["W_WIDTH"]), (groups, lanes * cell * accum)]
    tables = [(numbers["GATE_SIZE"], accum)] * (lanes * (cell - 1))
    tables += [(numbers["ACT_SIZE"], accum)] * (lanes * (2 if cell is Cell.LSTM else 1))
    word = lanes * state
    loop = memory_cost(2 << (groups - 1).bit_length(), word) + flow_cost(word + 1, _CELL_CLOCKS[cell]) + skid_cost(word + 2)
    lanes_in = Amounts(ff=max(word, numbers["P"] * state), lut=word)
    return mac_cost(mac) + roms_cost(roms) + roms_cost(tables) + _cell_cost(cell, numbers).times(lanes) + loop + lanes_in


def _cell(numbers: Numbers) -> Cell:
    return Cell.GRU if numbers["GRU"] else Cell.LSTM


def _cell_cost(cell: Cell, numbers: Numbers) -> Amounts:
    """Return the estimated resources of an rf_cell without its tables."""
    a, h, (new, v) = numbers["ACC_WIDTH"] + 1, numbers["Y_WIDTH"] + 1, _widths(numbers)
    sums = (Amounts(lut=a, ff=a + 1) + cast_cost(a + 1, _cast_of(numbers, "ACC", 0))).times(cell)
    tables = lookup_cost(a, a).times(cell + (cell is Cell.LSTM))
    products = Amounts(lut=v, ff=2 * v, dsp=dsps(a, new - a) + dsps(h, a) + dsps(a, a))
    delays = Amounts(lut=a, ff=2 * a) if cell is Cell.LSTM else Amounts(lut=5 * a, ff=4 * a)
    fraction = numbers["ACC_FRACTION"]
    finer = max(fraction, numbers["Y_FRACTION"])
    result = cast_cost(v, _cast_of(numbers, "Y", fraction + finer - numbers["Y_FRACTION"]))
    last = cast_cost(2 * a, _cast_of(numbers, "ACC", fraction)) if cell is Cell.GRU else result
    return sums + tables + products + delays + result + last


def _cast_of(numbers: Numbers, to: str, shift: int) -> dict[str, int]:
    overflow = numbers["ACC_OVERFLOW"] if to == "ACC" else numbers["OVERFLOW"]
    return {"Y_WIDTH": numbers[f"{to}_WIDTH"], "RESULT_SHIFT": shift, "OVERFLOW": overflow}


def _check(layer: Recurrent) -> None:
    name = layer.name.removesuffix("_state")
    check_accumulator(name, layer.y.precision, layer.weight, layer.bias, layer.accum)


STAGE = StageType(
    ("rf_recurrent",),
    _cost,
    (_product, accumulator, _state, _index),
    LayerPlan(Recurrent, _plan, check=_check, sharing=Sharing(_taken, lambda layer: layer.steps, _choices)),
)  # fmt: skip
