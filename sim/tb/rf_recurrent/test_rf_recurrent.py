# SPDX-License-Identifier: Apache-2.0
"""rf_recurrent against Python integers: LSTM and GRU, every shape of the products, any stalls, resets in a row, its clocks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.recurrent import Cell, Recurrent
from hypersonic.hls.network.layers.table import Table, table_value
from hypersonic.hls.rf.stage import Stage, Stream
from hypersonic.hls.rf.stages.recurrent import Shape, recurrent_stage, step_clocks
from tests.support.rtl.bench_cases import RowCase, fixed_point, stage_dut
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. p, lanes: numbers of the state and units per clock."""

    name: str
    cell: Cell
    units: int
    p: int = 1
    lanes: int = 1
    steps: int = 3
    sequences: bool = True
    accum: FixedPoint = fixed_point(14, 6)
    y: FixedPoint = fixed_point(9, 6, True, Rounding.RND, Overflow.SAT)
    relu: bool = False

    @property
    def shape(self) -> Shape:
        return Shape(self.p, self.lanes)

    def layer(self) -> Recurrent:
        rng = np.random.default_rng([*self.name.encode()])
        x = Tensor("x", (self.steps, self.units * self.cell), self.accum)
        y = Tensor("y", (self.steps, self.units) if self.sequences else (self.units,), self.y)
        weight = Constants(rng.integers(-90, 90, (self.units, self.units * self.cell)), 5)
        bias = Constants(rng.integers(-300, 300, self.units * self.cell), 6)
        late = Tensor("x", (self.units,), self.y)
        return Recurrent(
            "r", x, y, weight, bias, self.accum, 1, 1, self.cell, self.sequences,
            self.table(x, 64, 4, 0), self.table(x, 32, 3, -1), self.table(late, 32, 3, -1),
        )  # fmt: skip

    def table(self, x: Tensor, size: int, span_log2: int, low: int) -> Table:
        """Values that rise from `low` to 1, as tanh and sigmoid do."""
        if self.relu:
            size, span_log2, values = 1, 0, np.zeros(1, np.int64)
        else:
            values = np.rint(np.linspace(low, 1, size) * 2.0**self.accum.fraction).astype(np.int64)
        one, y = Constants(np.array([1]), 0), Tensor("y", x.shape, self.accum)
        return Table("r", x, y, Constants(values, self.accum.fraction), span_log2, self.relu, one)

    def stage(self) -> Stage:
        layer = self.layer()
        x, y = (
            Stream(tensor.name, tensor.precision, lanes, tensor.size // lanes)
            for tensor, lanes in ((layer.x, self.lanes * self.cell), (layer.y, self.lanes))
        )
        return recurrent_stage(self.name, layer, x, y, self.shape)

    def dut(self) -> Dut:
        return stage_dut("rf_recurrent", self.stage())

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        layer = self.layer()
        row = [rng.randint(self.accum.min_raw, self.accum.max_raw) >> rng.randint(0, 4) for _ in range(layer.x.size)]
        states = list(self.states(layer, np.array(row, dtype=object).reshape(self.steps, self.units, self.cell)))
        given = [int(value) for value in (np.concatenate(states) if self.sequences else states[-1])]
        return beats_of(row, self.lanes * self.cell, self.accum.width), beats_of(given, self.lanes, self.y.width)

    def states(self, layer: Recurrent, steps: np.ndarray) -> Iterator[np.ndarray]:
        """The state after every step, from gates of the input (steps, units, gates)."""
        accum, fraction, y = self.accum, self.accum.fraction, self.y
        weight, shift = layer.weight.raw.astype(object), y.fraction + layer.weight.fraction
        state = held = [0] * self.units
        for of_x in steps:
            of_h = [
                accum.confine(accum.cast(int(b), 6) + sum(accum.cast(s * w, shift) for s, w in zip(state, column, strict=True)))
                for b, column in zip(layer.bias.raw, weight.T, strict=True)
            ]
            old, state, held = [*zip(state, held, strict=True)], [], []
            for unit, (before, kept) in enumerate(old):
                x, u = of_x[unit], of_h[unit * self.cell : (unit + 1) * self.cell]
                sums = [accum.cast(a + b, fraction) for a, b in zip(x, u, strict=True)]
                if self.cell is Cell.LSTM:
                    i, f, o = (table_value(layer.gate, accum, sums[gate]) for gate in (0, 1, 3))
                    c = table_value(layer.act, accum, sums[2])
                    held.append(self.mixed(c * i, kept * f))
                    state.append(y.cast(o * table_value(layer.late_act, y, held[-1]), 2 * fraction))
                else:
                    z, r = (table_value(layer.gate, accum, sums[gate]) for gate in (0, 1))
                    h = table_value(layer.act, accum, accum.cast(x[2] + accum.cast(r * u[2], 2 * fraction), fraction))
                    state.append(self.mixed(h * ((1 << fraction) - z), before * z))
                    held.append(0)
            yield np.array(state, dtype=object)

    def mixed(self, new: int, old: int) -> int:
        """A product with 2 * accum.fraction fraction bits, and one with accum.fraction + y.fraction."""
        fraction = self.accum.fraction
        return self.y.cast((new << self.y.fraction) + (old << fraction), 2 * fraction + self.y.fraction)


WIDE = fixed_point(24, 14, True, Rounding.RND, Overflow.SAT)
CASES = [
    Case("lstm", Cell.LSTM, 4),
    Case("gru", Cell.GRU, 4),
    Case("one_unit", Cell.LSTM, 1, steps=4),
    Case("one_step", Cell.GRU, 3, p=3, lanes=3, steps=1, sequences=False),
    Case("narrower", Cell.GRU, 4, p=2, lanes=4, steps=2),
    Case("wider", Cell.LSTM, 8, p=4, lanes=2, sequences=False),
    Case("long", Cell.GRU, 40, p=20, steps=2),
    Case("fine", Cell.LSTM, 2, accum=WIDE, y=fixed_point(7, 3, False, Rounding.RND_CONV, Overflow.SAT)),
    Case("fine_gru", Cell.GRU, 2, accum=WIDE, y=fixed_point(20, 18, True, Rounding.TRN_ZERO, Overflow.SAT_SYM)),
    Case("unsigned", Cell.LSTM, 3, p=3, accum=fixed_point(12, 6, False)),
    Case("unsigned_gru", Cell.GRU, 3, accum=fixed_point(12, 0, False, Rounding.RND, Overflow.SAT)),
    Case("relu", Cell.LSTM, 2, relu=True),
    Case("relu_gru", Cell.GRU, 2, relu=True, y=fixed_point(12, 3)),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=6, reset_after=(1, 16, 40, 75, 130))


def test_steps_follow_each_other_at_the_predicted_pace(bench: StreamBench, case: Case) -> None:
    taken = np.array(bench.taken_at(case, 5)).reshape(5, -1)
    timing, step = case.stage().timing, step_clocks(case.layer(), case.shape)
    np.testing.assert_array_equal(np.diff(taken[1:, -1]), timing.ii)
    assert timing.ii == case.steps * step
    if case.sequences:
        np.testing.assert_array_equal(np.diff(taken[1:].reshape(4 * case.steps, -1)[:, 0]), step)
