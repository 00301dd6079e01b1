# SPDX-License-Identifier: Apache-2.0
"""rf_argmax against the index of the first maximum: beats of any size, equal maxima, stalls, reset."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypersonic.hls.fixed import FixedPoint
from tests.support.rtl.bench_cases import RowCase, drawn, fixed_point, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of, sized


@dataclass(frozen=True)
class Case(RowCase):
    name: str
    n: int
    lanes: int
    x: FixedPoint = fixed_point(8, 4)
    y: FixedPoint = fixed_point(16, 10)

    def dut(self) -> Dut:
        parameters = {
            "N": self.n, "LANES": self.lanes, **typed("X", self.x), "Y_WIDTH": self.y.width, "ONE": sized(self.y.cast(1, 0), 64)
        }  # fmt: skip
        return Dut("rf_argmax", parameters, {"s_axis": self.lanes * self.x.width}, self.lanes * self.y.width)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        vectors = [drawn(self.x, self.n, rng, 0, 1) for _ in range(rng.randint(1, 3))]
        ones = [self.y.cast(int(i == x.index(max(x))), 0) for x in vectors for i in range(self.n)]
        row = [value for x in vectors for value in x]
        return beats_of(row, self.lanes, self.x.width), beats_of(ones, self.lanes, self.y.width)


CASES = [
    Case("beats", 9, 3),
    Case("one_beat", 7, 7, x=fixed_point(3, 0), y=fixed_point(2, 0)),
    Case("a_class_a_beat", 6, 1, x=fixed_point(3, 0, False), y=fixed_point(8, 4)),
    Case("one_class", 1, 1),
    Case("a_one_that_saturates", 4, 2, y=fixed_point(4, 4)),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == len(taken) - 1
