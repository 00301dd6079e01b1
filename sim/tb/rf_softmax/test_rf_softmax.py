# SPDX-License-Identifier: Apache-2.0
"""rf_softmax against hls4ml's steps in Python integers: both strategies, beats of any size, stalls, reset."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import Parameters, RowCase, fixed_point, hex_text, modes, result, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    name: str
    stable: bool
    n: int
    lanes: int
    x: FixedPoint = fixed_point(8, 4)
    norm: FixedPoint = fixed_point(7, 4, False)
    accumulator: FixedPoint = fixed_point(20, 10)
    inverse: FixedPoint = fixed_point(18, 10, True, Rounding.RND, Overflow.SAT)
    factor: FixedPoint = fixed_point(18, 10)
    y: FixedPoint = fixed_point(16, 10)
    exp_size: int = 64
    inverse_size: int = 32
    exp_high: int = 1023

    def tables(self) -> tuple[list[int], list[int]]:
        rng = random.Random(self.name)
        low = 0 if self.accumulator.overflow is Overflow.SAT else self.accumulator.min_raw
        exponentials = [rng.randint(max(low, -self.exp_high), self.exp_high) for _ in range(self.exp_size)]
        return exponentials, [rng.randint(self.factor.min_raw, self.factor.max_raw) for _ in range(self.inverse_size)]

    def dut(self) -> Dut:
        a, y = self.accumulator, self.y
        parameters: Parameters = {
            "N": self.n, "LANES": self.lanes, "STABLE": int(self.stable), **typed("X", self.x),
            "NORM_SHIFT": self.x.fraction - self.norm.fraction, **typed("NORM", self.norm), **modes("NORM_", self.norm),
            "EXP_SIZE": self.exp_size, "EXP_FILE": f"{self.name}_exp.hex", **typed("ACC", a),
            "ACC_SATURATE": int(a.overflow is Overflow.SAT), "INVERSE_SHIFT": a.fraction - self.inverse.fraction,
            **typed("INVERSE", self.inverse), **modes("INVERSE_", self.inverse), "INVERSE_SIZE": self.inverse_size,
            "INVERSE_FILE": f"{self.name}_inv.hex", **typed("FACTOR", self.factor),
            **result(y, a.fraction + self.factor.fraction),
        }  # fmt: skip
        exponentials, inverses = self.tables()
        files = {
            f"{self.name}_exp.hex": hex_text(exponentials, a.width),
            f"{self.name}_inv.hex": hex_text(inverses, self.factor.width),
        }
        return Dut("rf_softmax", parameters, {"s_axis": self.lanes * self.x.width}, self.lanes * y.width, files)

    def results(self, x: list[int]) -> list[int]:
        exponentials, inverses = self.tables()
        address, keys = self.x, x
        if self.stable:
            address, keys = self.norm, [self.norm.cast(max(x) - value, self.x.fraction) for value in x]
        e = [exponentials[top_bits(key, address, self.exp_size)] for key in keys]
        total = self.inverse.cast(self.accumulator.confine(sum(e)), self.accumulator.fraction)
        factor = inverses[top_bits(total, self.inverse, self.inverse_size)]
        return [self.y.cast(value * factor, self.accumulator.fraction + self.factor.fraction) for value in e]

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        low, high = self.x.min_raw, self.x.max_raw
        vectors = rng.randint(1, 3)
        row = [rng.choice([low, high, rng.randint(-9, 9) & high, rng.randint(low, high)]) for _ in range(vectors * self.n)]
        y = [value for at in range(0, len(row), self.n) for value in self.results(row[at : at + self.n])]
        return beats_of(row, self.lanes, self.x.width), beats_of(y, self.lanes, self.y.width)


def top_bits(raw: int, fixed: FixedPoint, size: int) -> int:
    return (raw & ((1 << fixed.width) - 1)) >> (fixed.width - (size.bit_length() - 1))


STABLE, LATENCY = True, False
SATURATES = fixed_point(14, 8, True, Rounding.RND, Overflow.SAT)
CASES = [
    Case("stable", STABLE, 5, 5),
    Case("stable_a_class_a_beat", STABLE, 10, 1),
    Case("stable_in_beats", STABLE, 12, 3, y=fixed_point(10, 8, False, Rounding.RND_CONV, Overflow.SAT)),
    Case("stable_two", STABLE, 2, 1),
    Case("stable_one", STABLE, 1, 1),
    Case("stable_saturates", STABLE, 8, 2, accumulator=SATURATES, exp_high=4000),
    Case("stable_wraps", STABLE, 8, 4, accumulator=fixed_point(12, 8), exp_high=2000),
    Case("stable_of_unsigned", STABLE, 6, 2, x=fixed_point(8, 4, False), norm=fixed_point(8, 4, False)),
    Case("stable_rounded", STABLE, 6, 3, norm=fixed_point(6, 2, False, Rounding.RND, Overflow.SAT), exp_size=16),
    Case("stable_unsigned_sum", STABLE, 4, 2, accumulator=fixed_point(14, 8, False, Rounding.TRN, Overflow.SAT), exp_high=9000,
         inverse=fixed_point(12, 6, False), inverse_size=64),
    Case("latency", LATENCY, 6, 2),
    Case("latency_all_bits", LATENCY, 3, 3, exp_size=256, inverse_size=1024),
]  # fmt: skip


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == len(taken) - 1
