# SPDX-License-Identifier: Apache-2.0
"""rf_global_pool against Python integers: one channel beat and many, rounding and divisors, any stalls, reset in mid-image."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypersonic.hls.fixed import ROUNDING_CODES, FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import Parameters, RowCase, drawn, fixed_point, result, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    name: str
    average: bool
    pixels: int
    channels: int
    lanes: int = 1
    x: FixedPoint = fixed_point(8, 4)
    accumulator: FixedPoint = fixed_point(16, 4)
    y: FixedPoint = fixed_point(8, 4)

    def dut(self) -> Dut:
        source = self.accumulator if self.average else self.x
        parameters: Parameters = {
            "OP": int(self.average), "LANES": self.lanes, "CHANNEL_BEATS": self.channels // self.lanes, "PIXELS": self.pixels,
            **typed("X", self.x), "X_SHIFT": self.x.fraction - self.accumulator.fraction,
            "X_ROUNDING": ROUNDING_CODES[self.accumulator.rounding], **typed("ACC", self.accumulator),
            **result(self.y, source.fraction),
        }  # fmt: skip
        return Dut("rf_global_pool", parameters, {"s_axis": self.lanes * self.x.width}, self.lanes * self.y.width)

    def pool(self, pixels: list[int]) -> int:
        if not self.average:
            return self.y.cast(max(pixels), self.x.fraction)
        total = self.accumulator.confine(sum(self.accumulator.cast(x, self.x.fraction) for x in pixels))
        quotient = abs(total) // len(pixels) * (1 if total >= 0 else -1)
        return self.y.cast(quotient, self.accumulator.fraction)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        image = drawn(self.x, self.pixels * self.channels, rng)
        pooled = [self.pool(image[c :: self.channels]) for c in range(self.channels)]
        return beats_of(image, self.lanes, self.x.width), beats_of(pooled, self.lanes, self.y.width)


CASES = [
    Case("max", False, 5, 6, 2),
    Case("max_one_beat", False, 5, 2, 2, y=fixed_point(5, 1, True, Rounding.RND, Overflow.SAT)),
    Case("max_unsigned", False, 4, 2, 1, x=fixed_point(7, 4, False)),
    Case("average", True, 4, 3),
    Case("average_two_beats", True, 49, 2),
    Case("average_one_beat", True, 7, 3, 3, y=fixed_point(12, 8, True, Rounding.RND_CONV)),
    Case("average_of_one", True, 1, 2),
    Case("average_cut", True, 6, 4, 2, accumulator=fixed_point(12, 2)),
    Case("average_rounded", True, 6, 1, accumulator=fixed_point(12, 2, True, Rounding.RND)),
    Case("average_finer", True, 9, 5, accumulator=fixed_point(22, 10)),
    Case("average_unsigned", True, 9, 2, x=fixed_point(8, 4, False), accumulator=fixed_point(13, 4, False)),
    Case("average_wraps", True, 9, 2, accumulator=fixed_point(9, 4)),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_is_taken_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 10)
    assert taken[-1] - taken[case.channels // case.lanes - 1] == 9 * case.pixels * case.channels // case.lanes
