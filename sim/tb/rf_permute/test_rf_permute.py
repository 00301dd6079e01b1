# SPDX-License-Identifier: Apache-2.0
"""rf_permute: beats in another order, some of them twice or not at all, any stalls, rows without a gap, resets within a row."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.rf.stage import Stage, Stream
from hypersonic.hls.rf.stages.permute import permute_stage, widest_run
from tests.support.rtl.bench_cases import RowCase, stage_dut
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of

KIND = FixedPoint(7, 3)


@dataclass(frozen=True)
class Case(RowCase):
    """One instance: the elements of a row of `size` that it gives."""

    name: str
    size: int
    places: tuple[int, ...]
    lanes: int = 1

    def stage(self) -> Stage:
        places = np.array(self.places)
        assert widest_run(places, self.size) == self.lanes
        layer = Permute("p", Tensor("x", (self.size,), KIND), Tensor("y", (len(places),), KIND), places)
        x, y = (Stream(name, KIND, self.lanes, size // self.lanes) for name, size in (("x", self.size), ("y", len(places))))
        return permute_stage(self.name, layer, x, y)

    def dut(self) -> Dut:
        return stage_dut("rf_permute", self.stage())

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        row = [rng.randint(KIND.min_raw, KIND.max_raw) for _ in range(self.size)]
        given = [row[place] for place in self.places]
        return beats_of(row, self.lanes, KIND.width), beats_of(given, self.lanes, KIND.width)


CASES = [
    Case("transposed", 6, (0, 3, 1, 4, 2, 5)),
    Case("reversed", 8, (6, 7, 4, 5, 2, 3, 0, 1), lanes=2),
    Case("cropped", 12, (4, 5, 6)),
    Case("one", 5, (3,)),
    Case("repeated", 2, (1, 0, 1, 1, 0)),
    Case("whole", 3, (0, 1, 2), lanes=3),
]


def test_beats_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=25)


def test_rows_follow_each_other_without_a_gap(bench: StreamBench, case: Case) -> None:
    taken = np.array(bench.taken_at(case, 30)).reshape(30, -1)
    np.testing.assert_array_equal(np.diff(taken[2:, -1]), case.stage().timing.ii)
