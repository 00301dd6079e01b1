# SPDX-License-Identifier: Apache-2.0
"""rf_permute: beats in another order, some of them twice or not at all, any stalls, rows without a gap, resets within a row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.rf.stage import Stage, Stream
from hypersonic.hls.rf.stages.permute import permute_stage, widest_run
from hypersonic.sim.stream_bench import Beat, Dut, StreamBench, beats_of

KIND = FixedPoint(7, 3)


class Case(NamedTuple):
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
        stage, width = self.stage(), self.lanes * KIND.width
        files = {memory.file: memory.text() for memory in stage.memories}
        return Dut("rf_permute", dict(stage.parameters), {"s_axis": width}, width, files)

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        source: list[Beat] = []
        sink: list[Beat] = []
        for _ in range(rows):
            row = [rng.randint(KIND.min_raw, KIND.max_raw) for _ in range(self.size)]
            source += beats_of(row, self.lanes, KIND.width)
            sink += beats_of([row[place] for place in self.places], self.lanes, KIND.width)
        return [source], sink


CASES = [
    Case("transposed", 6, (0, 3, 1, 4, 2, 5)),
    Case("reversed", 8, (6, 7, 4, 5, 2, 3, 0, 1), lanes=2),
    Case("cropped", 12, (4, 5, 6)),
    Case("one", 5, (3,)),
    Case("repeated", 2, (1, 0, 1, 1, 0)),
    Case("whole", 3, (0, 1, 2), lanes=3),
]
IDS = [case.name for case in CASES]


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in CASES]) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_beats_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case.dut(), case.traffic, rows=25)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_rows_follow_each_other_without_a_gap(bench: StreamBench, case: Case) -> None:
    inputs, expected = case.traffic(30, 1)
    taken = np.array(bench.run(case.dut(), *inputs, results=len(expected)).taken_at).reshape(30, -1)
    np.testing.assert_array_equal(np.diff(taken[2:, -1]), case.stage().timing.ii)
