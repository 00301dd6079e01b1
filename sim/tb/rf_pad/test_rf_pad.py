# SPDX-License-Identifier: Apache-2.0
"""rf_pad: zeros on every side of images, nothing before an image begins, any stalls, reset in mid-image."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.bench_cases import RowCase
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. shape: (H, W, beats of a pixel); pad: (top, bottom, left, right)."""

    shape: tuple[int, int, int]
    pad: tuple[int, int, int, int]
    width: int = 8

    def dut(self) -> Dut:
        names = ("H", "W", "BEATS", "TOP", "BOTTOM", "LEFT", "RIGHT")
        parameters = dict(zip(names, (*self.shape, *self.pad), strict=True)) | {"WIDTH": self.width}
        return Dut("rf_pad", parameters, {"s_axis": self.width}, self.width)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        (h, w, beats), (top, bottom, left, right) = self.shape, self.pad
        image = [[[rng.getrandbits(self.width) for _ in range(beats)] for _ in range(w)] for _ in range(h)]
        zero = [0] * beats
        blank = [zero] * (left + w + right)
        padded = [blank] * top + [[zero] * left + row + [zero] * right for row in image] + [blank] * bottom
        return tuple(
            beats_of([word for row in rows for pixel in row for word in pixel], 1, self.width) for rows in (image, padded)
        )


CASES = [
    Case((2, 3, 1), (1, 1, 1, 1)),
    Case((3, 2, 2), (0, 2, 3, 0), 70),
    Case((1, 1, 1), (0, 0, 0, 0)),
    Case((4, 1, 3), (2, 1, 0, 0)),
    Case((1, 5, 1), (0, 0, 0, 2), 1),
    Case((2, 2, 1), (0, 0, 1, 0)),
]


def test_zeros_stand_around_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=10)


def test_a_beat_leaves_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 6)
    assert taken[-1] - taken[0] == len(taken) - 1
