# SPDX-License-Identifier: Apache-2.0
"""rf_merge against exact fractions: every operation, different types, streams that stall independently, reset."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.rf.modes import MergeOp
from tests.support.rtl.bench_cases import RowCase, drawn, fixed_point, result, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of

#: finer than any value of these benches
_FINE = 60


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. function(a, b) is the layer's exact function of real values; fraction is the fraction bits of its value."""

    name: str
    op: MergeOp
    function: Callable[[Fraction, Fraction], Fraction]
    fraction: int
    a: FixedPoint = fixed_point(8, 4)
    b: FixedPoint = fixed_point(10, 7)
    y: FixedPoint = fixed_point(8, 4, True, Rounding.RND_CONV, Overflow.SAT)
    lanes: int = 2

    def dut(self) -> Dut:
        common = max(self.a.fraction, self.b.fraction)
        parameters = {
            "OP": self.op, "LANES": self.lanes, **typed("A", self.a), **typed("B", self.b), "A_LEFT": common - self.a.fraction,
            "B_LEFT": common - self.b.fraction, **result(self.y, self.fraction),
        }  # fmt: skip
        inputs = {"s_axis_a": self.lanes * self.a.width, "s_axis_b": self.lanes * self.b.width}
        return Dut("rf_merge", parameters, inputs, self.lanes * self.y.width)

    def result(self, a: int, b: int) -> int:
        fine = self.function(Fraction(a, 2**self.a.fraction), Fraction(b, 2**self.b.fraction)) * 2**_FINE
        assert fine.denominator == 1
        return self.y.cast(int(fine), _FINE)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        size = self.lanes * rng.randint(1, 6)
        a, b = drawn(self.a, size, rng), drawn(self.b, size, rng)
        y = [self.result(*pair) for pair in zip(a, b, strict=True)]
        return tuple(beats_of(row, self.lanes, kind.width) for row, kind in ((a, self.a), (b, self.b), (y, self.y)))


CASES = [
    Case("add", MergeOp.ADD, operator.add, 7),
    Case(
        "add_unsigned",
        MergeOp.ADD,
        operator.add,
        4,
        fixed_point(8, 4, False),
        fixed_point(6, 4, False),
        fixed_point(9, 4, False),
        lanes=1,
    ),
    Case("subtract", MergeOp.SUBTRACT, operator.sub, 7),
    Case("subtract_unsigned", MergeOp.SUBTRACT, operator.sub, 4, fixed_point(8, 4, False), fixed_point(8, 4, False)),
    Case("multiply", MergeOp.MULTIPLY, operator.mul, 11, y=fixed_point(14, 8, True, Rounding.RND)),
    Case("multiply_unsigned", MergeOp.MULTIPLY, operator.mul, 9, fixed_point(8, 4, False), fixed_point(7, 5, True)),
    Case("average", MergeOp.ADD, lambda a, b: (a + b) / 2, 8, y=fixed_point(9, 5)),
    Case("max", MergeOp.MAXIMUM, max, 7),
    Case("max_mixed", MergeOp.MAXIMUM, max, 6, fixed_point(8, 6, False), fixed_point(8, 4), fixed_point(12, 6)),
    Case("min", MergeOp.MINIMUM, min, 7, lanes=3),
    Case(
        "wide",
        MergeOp.ADD,
        operator.add,
        40,
        fixed_point(50, 40),
        fixed_point(60, 30),
        fixed_point(40, 20, True, Rounding.RND_INF),
    ),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == len(taken) - 1
