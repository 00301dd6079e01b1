# SPDX-License-Identifier: Apache-2.0
"""rf_lanes: every element once and in order under any stalls, the narrow side never idle, reset in mid-row."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.bench_cases import RowCase
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance: the lanes of the input and of the output, and the bits of an element."""

    in_lanes: int
    out_lanes: int
    width: int

    def dut(self) -> Dut:
        parameters = {"IN_LANES": self.in_lanes, "OUT_LANES": self.out_lanes, "WIDTH": self.width}
        return Dut("rf_lanes", parameters, {"s_axis": self.in_lanes * self.width}, self.out_lanes * self.width)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        row = [rng.getrandbits(self.width) for _ in range(max(self.in_lanes, self.out_lanes) * rng.randint(1, 9))]
        return beats_of(row, self.in_lanes, self.width), beats_of(row, self.out_lanes, self.width)


SHAPES = [(4, 1, 8), (1, 4, 8), (2, 1, 3), (1, 2, 3), (3, 3, 5), (6, 2, 7), (2, 6, 7), (1, 8, 1), (35, 5, 4), (5, 35, 4)]
CASES = [Case(*shape) for shape in SHAPES]


def test_elements_come_out_once_and_in_order_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=30, reset_after=(1, 2, 5, 12))


def test_the_narrow_side_moves_a_beat_every_clock(bench: StreamBench, case: Case) -> None:
    (source,), sink = case.traffic(30, 5)
    assert bench.run(case.dut(), source, results=len(sink), drain=0).clocks <= max(len(source), len(sink)) + 3
