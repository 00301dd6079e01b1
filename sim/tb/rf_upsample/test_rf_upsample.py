# SPDX-License-Identifier: Apache-2.0
"""rf_upsample: pixels and rows repeated, a beat out every clock, any stalls, reset in mid-row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hypersonic.sim.stream_bench import Beat, Dut, StreamBench


@dataclass(frozen=True)
class Case:
    """One instance: columns, beats of a pixel, factors (down, across)."""

    columns: int
    beats: int
    factors: tuple[int, int]
    width: int = 8

    def dut(self) -> Dut:
        parameters = {
            "WIDTH": self.width,
            "W": self.columns,
            "BEATS": self.beats,
            "FACTOR_H": self.factors[0],
            "FACTOR_W": self.factors[1],
        }
        return Dut("rf_upsample", parameters, {"s_axis": self.width}, self.width)

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        down, across = self.factors
        source: list[Beat] = []
        sink: list[Beat] = []
        for _ in range(rows):
            image = [
                [[rng.getrandbits(self.width) for _ in range(self.beats)] for _ in range(self.columns)]
                for _ in range(rng.randint(1, 4))
            ]
            data = [word for row in image for pixel in row for word in pixel]
            out = [word for row in image for _ in range(down) for pixel in row for _ in range(across) for word in pixel]
            source += [Beat(word, i + 1 == len(data)) for i, word in enumerate(data)]
            sink += [Beat(word, i + 1 == len(out)) for i, word in enumerate(out)]
        return [source], sink


CASES = [
    Case(3, 2, (2, 2)),
    Case(4, 1, (3, 1), 70),
    Case(5, 3, (1, 2)),
    Case(1, 2, (4, 1)),
    Case(1, 1, (2, 3)),
    Case(4, 4, (1, 1), 1),
    Case(1, 1, (1, 1)),
]
IDS = [f"{case.columns}-{case.beats}-{case.factors}" for case in CASES]


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in CASES]) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_pixels_repeat_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case.dut(), case.traffic, rows=10)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_beat_leaves_every_clock(bench: StreamBench, case: Case) -> None:
    inputs, expected = case.traffic(10, 1)
    taken = bench.run(case.dut(), *inputs, results=len(expected)).taken_at
    assert taken[-1] - taken[0] == len(expected) - 1
