# SPDX-License-Identifier: Apache-2.0
"""rf_table against C's arithmetic on exact fractions: indices on both sides of zero, both ends, ELU and SELU, reset."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import Parameters, RowCase, fixed_point, hex_text, modes, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. span: the range of x in the table (16 for sigmoid, 8 for tanh, -8 for negative x in ELU); gain: its raw
    value and its fraction bits."""

    name: str
    size: int
    span: int
    x: FixedPoint = fixed_point(10, 5)
    y: FixedPoint = fixed_point(9, 7)
    lanes: int = 2
    gain: tuple[int, int] | None = None
    raw_index: bool = False

    def table(self) -> list[int]:
        rng = random.Random(self.name)
        return [rng.randint(self.y.min_raw, self.y.max_raw) for _ in range(self.size)]

    def dut(self) -> Dut:
        parameters: Parameters = {
            "LANES": self.lanes, "X_WIDTH": self.x.width, "X_SIGNED": int(self.x.signed and not self.raw_index),
            "SCALE": 1 if self.raw_index else self.size * (1 if self.span > 0 else -1),
            "SCALE_SHIFT": 0 if self.raw_index else self.x.fraction + abs(self.span).bit_length() - 1,
            "OFFSET": 0 if self.gain or self.raw_index else self.size // 2, "TABLE_SIZE": self.size,
            "TABLE_FILE": f"{self.name}.hex", **typed("Y", self.y), **modes("", self.y),
        }  # fmt: skip
        if self.gain:
            shift = self.x.fraction + self.gain[1] - self.y.fraction
            parameters |= {"POSITIVE_PASS": 1, "GAIN": self.gain[0], "RESULT_SHIFT": shift}
        files = {f"{self.name}.hex": hex_text(self.table(), self.y.width)}
        return Dut("rf_table", parameters, {"s_axis": self.lanes * self.x.width}, self.lanes * self.y.width, files)

    def result(self, x: int, table: list[int]) -> int:
        if self.raw_index:
            return table[x & ((1 << self.x.width) - 1)]
        if self.gain and x >= 0:
            return self.y.cast(x * self.gain[0], self.x.fraction + self.gain[1])
        index = math.trunc(Fraction(x) / Fraction(2) ** self.x.fraction * self.size / self.span)
        index += 0 if self.gain else self.size // 2
        return table[min(max(index, 0), self.size - 1)]

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        table = self.table()
        size = self.lanes * rng.randint(1, 9)
        low, high = self.x.min_raw, self.x.max_raw
        row = [max(rng.choice([low, high, -1, 0, 1, rng.randint(low, high)]), low) for _ in range(size)]
        y = [self.result(x, table) for x in row]
        return beats_of(row, self.lanes, self.x.width), beats_of(y, self.lanes, self.y.width)


CASES = [
    Case("sigmoid", 64, 16),
    Case("sigmoid_of_wide", 32, 16, x=fixed_point(24, 10), lanes=1),
    Case("sigmoid_of_coarse", 1024, 16, x=fixed_point(6, 1)),
    Case("sigmoid_of_integers", 1024, 16, x=fixed_point(8, -1)),
    Case("sigmoid_of_unsigned", 64, 16, x=fixed_point(9, 5, False)),
    Case("tanh", 128, 8),
    Case("not_a_power_of_two", 100, 16),
    Case("elu", 64, -8, gain=(1, 0), y=fixed_point(8, 3, True, Rounding.RND, Overflow.SAT)),
    Case("selu", 64, -8, gain=(34429, 15), y=fixed_point(12, 6, True, Rounding.RND_CONV, Overflow.SAT), lanes=1),
    Case("lookup", 64, 1, x=fixed_point(6, 0), raw_index=True),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=40)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == len(taken) - 1
