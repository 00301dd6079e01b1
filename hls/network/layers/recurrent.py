# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU: a Dense over every time step, and then the part that keeps the state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.attributes import constants, number, precision, refuse
from hypersonic.hls.network.base import Layer, Products, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.dense import Dense, weight_places
from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.network.layers.table import Table, curve_table, table_values
from hypersonic.hls.network.products import check_strategy, reuse
from hypersonic.hls.network.raw import Integers, cast, cast_all, confine


class Cell(IntEnum):
    """The kind of recurrent layer; its value is the number of gates."""

    GRU = 3
    LSTM = 4


@dataclass(frozen=True, eq=False)
class Recurrent(Products):
    """The part of an LSTM or a GRU behind the products with the input; nnet_recurrent.h.

    x: (steps, units * gates), the products with the input and their bias, of type accum, unit by unit with all its gates. In
    each step, with u = accum(bias + state @ weight), sums and products exact before each cast, and 0 as the state before the
    first step:

    LSTM, gates (i, f, c, o): i, f, o = gate(accum(x + u)); c = act(accum(x + u)); s = result(c * i + s * f);
    state = result(o * act(s)).
    GRU with reset_after, gates (z, r, h): z, r = gate(accum(x + u)); h = act(accum(x + accum(r * u)));
    state = result(h * (1 - z) + state * z).

    hls4ml computes the same with `static` and without, in io_parallel and in io_stream. y: the states of all steps if
    `sequences`, else of the last one. weight: (units, units * gates). bias: (units * gates,).

    Attributes:
        gate, act: functions of a number of type accum, with a result of that type; a ReLU is a table of one 0 that is
            negative_only.
        late_act: `act` of a number of y's type.
    """

    cell: Cell
    sequences: bool
    gate: Table
    act: Table
    late_act: Table

    @property
    def units(self) -> int:
        """Numbers of the state."""
        return int(self.weight.raw.shape[0])

    @property
    def steps(self) -> int:
        """Time steps of a row."""
        return self.x.shape[0]


# ---------------------------------------------------------------- in hls4ml's graph
def _read(layer: Any, x: Tensor, y: Tensor) -> tuple[Dense, Recurrent]:
    return _read_direction(layer, x, y, Cell[layer.class_name.upper()], "", sequences=bool(layer.get_attr("return_sequences")))


def _read_both(layer: Any, x: Tensor, y: Tensor) -> tuple[Layer, ...]:
    """Read a Bidirectional; its second layer takes the steps of x from the last to the first, and gives them so."""
    sequences, steps = bool(layer.get_attr("return_sequences")), list[Layer]()
    results: list[Tensor] = []
    for side in ("forward", "backward"):
        cell, units = Cell[str(layer.get_attr(f"{side}_class_name")).upper()], int(layer.get_attr(f"{side}_n_states"))
        source, own = x, Tensor(f"{y.name}.{side}", (*y.shape[:-1], units), y.precision)
        if side == "backward":
            steps.append(_reversed(layer, x, "input"))
            source = steps[-1].y
        steps += _read_direction(layer, source, own, cell, f"{side}_", sequences=sequences)
        if side == "backward" and sequences:
            steps.append(_reversed(layer, own, "result"))
        results.append(steps[-1].y)
    return (*steps, Concatenate(layer.name, results[0], results[1], y, len(y.shape) - 1))


def _reversed(layer: Any, x: Tensor, what: str) -> Permute:
    places = np.arange(x.size, dtype=np.int64).reshape(x.shape)[::-1].reshape(-1)
    return Permute(f"{layer.name}_reversed_{what}", x, Tensor(f"{x.name}.reversed", x.shape, x.precision), places)


def _read_direction(layer: Any, x: Tensor, y: Tensor, cell: Cell, prefix: str, *, sequences: bool) -> tuple[Dense, Recurrent]:
    """Return one direction of a recurrent layer.

    Args:
        prefix: of its attributes in a Bidirectional.
        y: its own result.
    """
    transposed, units, accum = check_strategy(layer), y.channels, precision(layer, "accum_t")
    if accum.fraction < 0:
        raise refuse(layer, f"accum is {accum}, expected 0 or more fraction bits")
    swapped = cell is Cell.GRU and bool(layer.get_attr("pytorch", False))  # gates r, z, h
    order = _gate_order(units, cell, (1, 0, 2) if swapped else tuple(range(cell)))

    def matrix(name: str, rows: int) -> Constants:
        flat = constants(layer, f"{prefix}{name}")
        raw = flat.raw.reshape(-1, rows).T if transposed else flat.raw.reshape(rows, -1)
        return Constants(raw[:, order], flat.fraction)

    def vector(name: str) -> Constants:
        flat = constants(layer, f"{prefix}{name}")
        return Constants(flat.raw[order], flat.fraction)

    weight, bias = matrix("weight", x.channels), vector("bias")
    recurrent, recurrent_bias = matrix("recurrent_weight", units), vector("recurrent_bias")
    gates = Tensor(f"{y.name}.gates", (x.shape[0], units * cell), accum)
    here, late = Tensor("x", (units,), accum), Tensor("x", (units,), y.precision)
    gate, act = (str(layer.get_attr(f"{prefix}{name}")).lower() for name in ("recurrent_activation", "activation"))
    taken, asked = reuse(layer)
    again = int(layer.get_attr(f"{prefix}recurrent_reuse_factor") or taken)
    places, width = weight_places(layer, constants(layer, f"{prefix}weight"), f"{prefix}weight")
    return (
        Dense(
            f"{layer.name}{prefix and '_'}{prefix[:-1]}", x, gates, weight, bias, accum, taken, asked,
            weights_in=places, type_width=width,
        ),
        Recurrent(
            f"{layer.name}_{prefix}state", gates, y, recurrent, recurrent_bias, accum, again, asked, cell, sequences,
            _function(layer, gate, here, here), _function(layer, act, here, here), _function(layer, act, late, here),
        ),
    )  # fmt: skip


def _gate_order(units: int, cell: Cell, gates: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the columns of hls4ml's matrices (gate, unit) in the order (unit, gate)."""
    return np.arange(units * cell, dtype=np.int64).reshape(cell, units)[list(gates)].T.reshape(-1)


def _function(layer: Any, function: str, x: Tensor, y: Tensor) -> Table:
    if function == "relu":
        return Table(layer.name, x, y, Constants(np.zeros(1, np.int64), y.precision.fraction), 0, True, number(1))
    if function not in ("sigmoid", "tanh"):
        raise refuse(layer, f"an activation is {function}, expected relu, sigmoid or tanh")
    return curve_table(layer, function, x, y)


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Recurrent, x: Integers) -> Integers:
    gates = x.reshape(len(x), layer.steps, layer.units, layer.cell)
    accum, y = layer.accum, layer.y.precision
    weight, start = layer.weight.raw.astype(object), cast_all(layer.bias, accum)
    held = state = np.zeros((len(x), layer.units), dtype=object)
    given = []
    for of_x in gates.swapaxes(0, 1):
        products = cast(state[:, :, None] * weight, y.fraction + layer.weight.fraction, accum)
        of_h = confine(products.sum(axis=1) + start, accum).reshape(of_x.shape)
        step = _lstm_step if layer.cell is Cell.LSTM else _gru_step
        state, held = step(layer, np.moveaxis(of_x, -1, 0), np.moveaxis(of_h, -1, 0), held)
        given.append(state)
    return np.stack(given, axis=1) if layer.sequences else state


def _lstm_step(layer: Recurrent, of_x: Integers, of_h: Integers, held: Integers) -> tuple[Integers, Integers]:
    """Return the new state (rows, units) and the new cell state.

    Args:
        of_x, of_h: the gates (4, rows, units).
    """
    accum, y = layer.accum, layer.y.precision
    i, f, c, o = cast(of_x + of_h, accum.fraction, accum)
    i, f, o = (table_values(layer.gate, gate) for gate in (i, f, o))
    held = _mixed(layer, table_values(layer.act, c) * i, held * f)
    return cast(o * table_values(layer.late_act, held), 2 * accum.fraction, y), held


def _gru_step(layer: Recurrent, of_x: Integers, of_h: Integers, state: Integers) -> tuple[Integers, Integers]:
    """Return the new state twice, in the form of _lstm_step's result."""
    accum, fraction = layer.accum, layer.accum.fraction
    z, r = (table_values(layer.gate, cast(of_x[gate] + of_h[gate], fraction, accum)) for gate in (0, 1))
    h = cast(of_x[2] + cast(r * of_h[2], 2 * fraction, accum), fraction, accum)
    state = _mixed(layer, table_values(layer.act, h) * ((1 << fraction) - z), state * z)
    return state, state


def _mixed(layer: Recurrent, new: Integers, old: Integers) -> Integers:
    """Return y(new + old): a product of numbers of type accum, and one of such a number with a state."""
    fraction, y = layer.accum.fraction, layer.y.precision
    finer = max(fraction, y.fraction)
    return cast((new << (finer - fraction)) + (old << (finer - y.fraction)), fraction + finer, y)


LAYER = LayerType(Recurrent, _evaluate, readers={"LSTM": _read, "GRU": _read, "Bidirectional": _read_both})
