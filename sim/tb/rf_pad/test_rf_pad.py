# SPDX-License-Identifier: Apache-2.0
"""rf_pad: zeros on every side of images, nothing before an image begins, any stalls, reset in mid-image."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hypersonic.sim.stream_bench import Beat, Dut, StreamBench


@dataclass(frozen=True)
class Case:
    """One instance. shape: (H, W, beats of a pixel); pad: (top, bottom, left, right)."""

    shape: tuple[int, int, int]
    pad: tuple[int, int, int, int]
    width: int = 8

    def dut(self) -> Dut:
        names = ("H", "W", "BEATS", "TOP", "BOTTOM", "LEFT", "RIGHT")
        parameters = dict(zip(names, (*self.shape, *self.pad), strict=True)) | {"WIDTH": self.width}
        return Dut("rf_pad", parameters, {"s_axis": self.width}, self.width)

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        (h, w, beats), (top, bottom, left, right) = self.shape, self.pad
        source: list[Beat] = []
        sink: list[Beat] = []
        for _ in range(rows):
            image = [[[rng.getrandbits(self.width) for _ in range(beats)] for _ in range(w)] for _ in range(h)]
            data = [word for row in image for pixel in row for word in pixel]
            zero = [0] * beats
            blank = [zero] * (left + w + right)
            padded = [blank] * top + [[zero] * left + row + [zero] * right for row in image] + [blank] * bottom
            out = [word for row in padded for pixel in row for word in pixel]
            source += [Beat(word, i + 1 == len(data)) for i, word in enumerate(data)]
            sink += [Beat(word, i + 1 == len(out)) for i, word in enumerate(out)]
        return [source], sink


CASES = [
    Case((2, 3, 1), (1, 1, 1, 1)),
    Case((3, 2, 2), (0, 2, 3, 0), 70),
    Case((1, 1, 1), (0, 0, 0, 0)),
    Case((4, 1, 3), (2, 1, 0, 0)),
    Case((1, 5, 1), (0, 0, 0, 2), 1),
    Case((2, 2, 1), (0, 0, 1, 0)),
]
IDS = [f"{case.shape}-{case.pad}" for case in CASES]


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in CASES]) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_zeros_stand_around_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case.dut(), case.traffic, rows=10)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_beat_leaves_every_clock(bench: StreamBench, case: Case) -> None:
    inputs, expected = case.traffic(6, 1)
    taken = bench.run(case.dut(), *inputs, results=len(expected)).taken_at
    assert taken[-1] - taken[0] == len(expected) - 1
