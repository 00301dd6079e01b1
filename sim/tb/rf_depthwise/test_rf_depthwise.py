# SPDX-License-Identifier: Apache-2.0
"""rf_depthwise against sums of Python integers: kernels of one row or column, product rounding, stalls, reset in mid-window."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import RowCase, drawn, fixed_point, hex_text, products, result
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, pack


@dataclass(frozen=True)
class Case(RowCase):
    name: str
    channels: int
    lanes: int
    kernel: tuple[int, int]
    x: FixedPoint = fixed_point(8, 4)
    w: FixedPoint = fixed_point(7, 6)
    accumulator: FixedPoint = fixed_point(24, 10)
    y: FixedPoint = fixed_point(8, 4, True, Rounding.RND_CONV, Overflow.SAT)

    def weights(self) -> list[list[list[int]]]:
        """The weights, indexed by kh, kw and channel."""
        rng = random.Random(f"{self.name} weights")
        return [
            [[rng.randint(self.w.min_raw, self.w.max_raw) for _ in range(self.channels)] for _ in range(self.kernel[1])]
            for _ in range(self.kernel[0])
        ]

    def bias(self) -> list[int]:
        rng = random.Random(f"{self.name} bias")
        return [rng.randint(self.accumulator.min_raw >> 3, self.accumulator.max_raw >> 3) for _ in range(self.channels)]

    def dut(self) -> Dut:
        parameters = {
            "LANES": self.lanes, "CHANNEL_BEATS": self.channels // self.lanes, "K_H": self.kernel[0], "K_W": self.kernel[1],
            **products(self.x, self.w, self.accumulator), **result(self.y, self.accumulator.fraction),
            "WEIGHTS": f"{self.name}_w.hex", "BIAS": f"{self.name}_b.hex",
        }  # fmt: skip
        weights, bias = self.weights(), self.bias()
        groups = range(0, self.channels, self.lanes)
        words = [
            pack([weight for row in weights for weight in row[kw][c : c + self.lanes]], self.w.width)
            for c in groups
            for kw in range(self.kernel[1])
        ]
        biases = [pack(bias[c : c + self.lanes], self.accumulator.width) for c in groups]
        files = {f"{self.name}_w.hex": hex_text(words), f"{self.name}_b.hex": hex_text(biases)}
        inputs = {"s_axis": self.kernel[0] * self.lanes * self.x.width}
        return Dut("rf_depthwise", parameters, inputs, self.lanes * self.y.width, files)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        weights, bias = self.weights(), self.bias()
        k_h, k_w = self.kernel
        source: list[Beat] = []
        sink: list[Beat] = []
        groups = [c for _ in range(rng.randint(1, 4)) for c in range(0, self.channels, self.lanes)]
        for i, c in enumerate(groups):
            x = [[drawn(self.x, self.lanes, rng) for _ in range(k_h)] for _ in range(k_w)]
            last = i + 1 == len(groups)
            source += [
                Beat(pack([v for pixel in column for v in pixel], self.x.width), last and kw + 1 == k_w)
                for kw, column in enumerate(x)
            ]
            y = [
                self.result(
                    [x[kw][kh][lane] * weights[kh][kw][c + lane] for kh in range(k_h) for kw in range(k_w)], bias[c + lane]
                )
                for lane in range(self.lanes)
            ]
            sink.append(Beat(pack(y, self.y.width), last))
        return source, sink

    def result(self, products: list[int], bias: int) -> int:
        fraction = self.x.fraction + self.w.fraction
        total = bias + sum(self.accumulator.cast(product, fraction) for product in products)
        return self.y.cast(self.accumulator.confine(total), self.accumulator.fraction)


CASES = [
    Case("three_by_three", 4, 2, (3, 3)),
    Case("all_channels", 3, 3, (2, 3)),
    Case("one_column", 4, 1, (5, 1)),
    Case("one_row", 2, 1, (1, 4)),
    Case("one_weight", 3, 1, (1, 1)),
    Case("one_channel", 1, 1, (3, 2), y=fixed_point(12, 6)),
    Case("unsigned", 2, 1, (3, 3), x=fixed_point(7, 5, False), y=fixed_point(6, 2, False, Rounding.RND, Overflow.SAT)),
    Case("cut", 2, 2, (3, 3), accumulator=fixed_point(14, 5)),
    Case("cut_rounded", 2, 2, (3, 2), accumulator=fixed_point(14, 4, True, Rounding.RND)),
    Case("shifted_left", 2, 1, (2, 2), accumulator=fixed_point(30, 15)),
    Case("wraps", 2, 1, (3, 3), accumulator=fixed_point(11, 10), y=fixed_point(8, 8)),
    Case("unsigned_accumulator", 2, 1, (2, 2), accumulator=fixed_point(20, 10, False)),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_is_taken_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == (len(taken) - 1) * case.kernel[1]
