# SPDX-License-Identifier: Apache-2.0
"""rf_upsample: pixels and rows repeated, a beat out every clock, any stalls, reset in mid-row."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.bench_cases import RowCase
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance: columns, beats of a pixel, factors (down, across)."""

    columns: int
    beats: int
    factors: tuple[int, int]
    width: int = 8

    def dut(self) -> Dut:
        down, across = self.factors
        parameters = {"WIDTH": self.width, "W": self.columns, "BEATS": self.beats, "FACTOR_H": down, "FACTOR_W": across}
        return Dut("rf_upsample", parameters, {"s_axis": self.width}, self.width)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        down, across = self.factors
        image = [
            [[rng.getrandbits(self.width) for _ in range(self.beats)] for _ in range(self.columns)]
            for _ in range(rng.randint(1, 4))
        ]
        data = [word for row in image for pixel in row for word in pixel]
        out = [word for row in image for _ in range(down) for pixel in row for _ in range(across) for word in pixel]
        return beats_of(data, 1, self.width), beats_of(out, 1, self.width)


CASES = [
    Case(3, 2, (2, 2)),
    Case(4, 1, (3, 1), 70),
    Case(5, 3, (1, 2)),
    Case(1, 2, (4, 1)),
    Case(1, 1, (2, 3)),
    Case(4, 4, (1, 1), 1),
    Case(1, 1, (1, 1)),
]


def test_pixels_repeat_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=10)


def test_a_beat_leaves_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 10)
    assert taken[-1] - taken[0] == len(taken) - 1
