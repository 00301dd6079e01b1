# SPDX-License-Identifier: Apache-2.0
"""rf_pool against Python integers: maxima and averages of windows with and without padding, any stalls, reset."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypersonic.hls.fixed import ROUNDING_CODES, FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import Parameters, RowCase, drawn, fixed_point, result, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, pack


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. shape: (H, W, C); kernel and stride: (down, across); pad: (top, bottom, left, right)."""

    name: str
    average: bool
    shape: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    lanes: int = 1
    x: FixedPoint = fixed_point(8, 4)
    accumulator: FixedPoint = fixed_point(14, 4)
    y: FixedPoint = fixed_point(8, 4)
    count_pad: bool = False

    @property
    def out(self) -> tuple[int, int]:
        (h, w, _), (k_h, k_w), (s_h, s_w), (top, bottom, left, right) = self.shape, self.kernel, self.stride, self.pad
        return (h + top + bottom - k_h) // s_h + 1, (w + left + right - k_w) // s_w + 1

    def dut(self) -> Dut:
        source = self.accumulator if self.average else self.x
        parameters: Parameters = {
            "OP": int(self.average), "LANES": self.lanes, "CHANNEL_BEATS": self.shape[2] // self.lanes,
            "K_H": self.kernel[0], "K_W": self.kernel[1], "H": self.shape[0], "W": self.shape[1],
            "S_H": self.stride[0], "S_W": self.stride[1], "PAD_TOP": self.pad[0], "PAD_LEFT": self.pad[2],
            "OUT_H": self.out[0], "OUT_W": self.out[1], "COUNT_PAD": int(self.count_pad),
            **typed("X", self.x), "X_SHIFT": self.x.fraction - self.accumulator.fraction,
            "X_ROUNDING": ROUNDING_CODES[self.accumulator.rounding], **typed("ACC", self.accumulator),
            **result(self.y, source.fraction),
        }  # fmt: skip
        return Dut("rf_pool", parameters, {"s_axis": self.kernel[0] * self.lanes * self.x.width}, self.lanes * self.y.width)

    def pool(self, window: list[int], count: int) -> int:
        if not self.average:
            return self.y.cast(max(window), self.x.fraction)
        total = self.accumulator.confine(sum(self.accumulator.cast(x, self.x.fraction) for x in window))
        quotient = abs(total) // count * (1 if total >= 0 else -1)
        return self.y.cast(quotient, self.accumulator.fraction)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        source: list[Beat] = []
        sink: list[Beat] = []
        beats = [self.pixel(oy, ox, rng) for oy in range(self.out[0]) for ox in range(self.out[1])
                 for _ in range(self.shape[2] // self.lanes)]  # fmt: skip
        for i, (columns, results) in enumerate(beats):
            last = i + 1 == len(beats)
            source += [Beat(pack(column, self.x.width), last and kw + 1 == len(columns)) for kw, column in enumerate(columns)]
            sink.append(Beat(pack(results, self.y.width), last))
        return source, sink

    def pixel(self, oy: int, ox: int, rng: random.Random) -> tuple[list[list[int]], list[int]]:
        """One beat of channels: the input columns and the results."""
        (h, w, _), (k_h, k_w) = self.shape, self.kernel
        y, x = oy * self.stride[0] - self.pad[0], ox * self.stride[1] - self.pad[2]
        outside = 0 if self.average else self.x.min_raw
        on_image = [[0 <= y + kh < h and 0 <= x + kw < w for kh in range(k_h)] for kw in range(k_w)]
        columns = [
            [pixel for on in column for pixel in (drawn(self.x, self.lanes, rng) if on else [outside] * self.lanes)]
            for column in on_image
        ]
        count = k_h * k_w if self.count_pad else sum(map(sum, on_image))
        windows = [[value for column in columns for value in column[lane :: self.lanes]] for lane in range(self.lanes)]
        return columns, [self.pool(window, count) for window in windows]


SAME = (1, 1, 1, 1)
UNSIGNED, WIDE = fixed_point(8, 4, False), fixed_point(32, 16)
CASES = [
    Case("max", False, (4, 6, 2), (2, 2), (2, 2), lanes=2),
    Case("max_unsigned", False, (4, 4, 2), (3, 2), (1, 2), x=fixed_point(7, 4, False), y=fixed_point(9, 5)),
    Case("max_padded", False, (4, 5, 3), (3, 3), (2, 2), SAME, lanes=3, y=fixed_point(5, 1, True, Rounding.RND, Overflow.SAT)),
    Case("max_of_sequence", False, (8, 1, 2), (4, 1), (4, 1)),
    Case("max_of_one", False, (2, 2, 1), (1, 1), (1, 1)),
    Case("average", True, (4, 6, 2), (2, 2), (2, 2), lanes=2),
    Case("average_of_nine", True, (6, 6, 1), (3, 3), (3, 3), y=fixed_point(12, 8, True, Rounding.RND)),
    Case("average_padded", True, (5, 4, 2), (3, 3), (2, 1), SAME),
    Case("average_padded_on_one_side", True, (5, 5, 2), (2, 3), (2, 2), (0, 1, 0, 1), lanes=2),
    Case("average_padding_counts", True, (5, 4, 2), (3, 3), (2, 1), SAME, count_pad=True),
    Case("average_cut", True, (4, 4, 1), (2, 2), (2, 2), accumulator=fixed_point(10, 2)),
    Case("average_rounded", True, (4, 4, 1), (2, 2), (2, 2), accumulator=fixed_point(10, 1, True, Rounding.RND)),
    Case("average_finer", True, (5, 4, 1), (5, 1), (5, 1), accumulator=fixed_point(20, 9)),
    Case("average_wraps", True, (6, 6, 1), (3, 3), (3, 3), accumulator=fixed_point(9, 4)),
    Case("average_unsigned", True, (4, 4, 1), (2, 3), (2, 1), x=UNSIGNED, accumulator=fixed_point(12, 4, False)),
    Case("average_wide", True, (3, 3, 1), (3, 3), (3, 3), x=WIDE, accumulator=fixed_point(40, 16), y=WIDE),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=8)


def test_a_beat_is_taken_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 12)
    assert taken[-1] - taken[0] == (len(taken) - 1) * case.kernel[1]
