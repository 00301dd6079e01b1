# SPDX-License-Identifier: Apache-2.0
"""rf_map against exact fractions: every mode as in the layers that use it, any stalls, constants that repeat, reset."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.rf.modes import MapMode
from tests.support.rtl.bench_cases import Parameters, RowCase, drawn, fixed_point, hex_text, result, typed
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of, pack, sized

#: finer than any value of these benches
_FINE = 60
Function = Callable[[Fraction, Fraction, Fraction], Fraction]


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. function(x, a, b) is the layer's exact function of real values."""

    name: str
    mode: MapMode
    function: Function
    x: FixedPoint = fixed_point(8, 4)
    a: FixedPoint = fixed_point(7, 5)
    b: FixedPoint = fixed_point(9, 6)
    y: FixedPoint = fixed_point(8, 4, True, Rounding.RND_CONV, Overflow.SAT)
    lanes: int = 2
    period: int = 3
    fraction: int = 4  # of v
    extra: Mapping[str, int] | None = None
    constant: tuple[int, int] | None = None  # a and b if they are the same for all elements

    def constants(self) -> list[tuple[int, int]]:
        rng = random.Random(self.name)
        size = self.period * self.lanes
        ends = (self.a.min_raw, self.a.max_raw), (self.b.min_raw, self.b.max_raw)
        return [self.constant or (rng.randint(*ends[0]), rng.randint(*ends[1])) for _ in range(size)]

    def dut(self) -> Dut:
        parameters: Parameters = {
            "LANES": self.lanes, "MODE": self.mode, **typed("X", self.x), "A_WIDTH": self.a.width,
            "A_FRACTION": self.a.fraction, "B_WIDTH": self.b.width, "PERIOD": self.period, "A_FILE": f"{self.name}_a.hex",
            "B_FILE": f"{self.name}_b.hex", **result(self.y, self.fraction),
            **{key: sized(value, 64) if key in ("LOW", "HIGH") else value for key, value in (self.extra or {}).items()},
        }  # fmt: skip
        columns = list(zip(*self.constants(), strict=True))
        files = {
            f"{self.name}_{letter}.hex": hex_text(
                pack(column[at : at + self.lanes], fixed.width) for at in range(0, len(column), self.lanes)
            )
            for letter, column, fixed in zip("ab", columns, (self.a, self.b), strict=True)
        }
        return Dut("rf_map", parameters, {"s_axis": self.lanes * self.x.width}, self.lanes * self.y.width, files)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        constants = self.constants()
        row = drawn(self.x, 2 * len(constants), rng, 0, 1)
        y = [self.result(x, *constants[i % len(constants)]) for i, x in enumerate(row)]
        return beats_of(row, self.lanes, self.x.width), beats_of(y, self.lanes, self.y.width)

    def result(self, x: int, a: int, b: int) -> int:
        numbers = (Fraction(raw, 2**fixed.fraction) for raw, fixed in zip((x, a, b), (self.x, self.a, self.b), strict=True))
        fine = self.function(*numbers) * 2**_FINE
        assert fine.denominator == 1
        return self.y.cast(int(fine), _FINE)


def clamp(value: Fraction, low: int, high: int) -> Fraction:
    return min(max(value, Fraction(low)), Fraction(high))


def relu(x: Fraction, a: Fraction, b: Fraction) -> Fraction:
    return max(x, Fraction(0))


SAME, AFFINE, LEAKY, THRESHOLD, STEP = MapMode
SCALE = {"PRODUCT_LEFT": 0, "OFFSET_LEFT": 3}
UNSIGNED = fixed_point(8, 4, False)
CASES = [
    Case("cast", SAME, lambda x, a, b: x, y=fixed_point(6, 2, True, Rounding.RND, Overflow.SAT_SYM)),
    Case("relu", SAME, relu, extra={"CLAMP_LOW": 1}, y=fixed_point(7, 3, False, Rounding.RND, Overflow.SAT)),
    Case("relu_6", SAME, lambda x, a, b: clamp(x, 0, 6), extra={"CLAMP_LOW": 1, "CLAMP_HIGH": 1, "HIGH": 96}),
    Case("relu_of_unsigned", SAME, relu, x=UNSIGNED, extra={"CLAMP_LOW": 1}, y=fixed_point(16, 8), lanes=1),
    Case("normalise", AFFINE, lambda x, a, b: x * a + b, fraction=9, extra=SCALE),
    Case("normalise_unsigned", AFFINE, lambda x, a, b: x * a + b, x=UNSIGNED, fraction=9, extra=SCALE, period=1, lanes=3),
    Case(
        "normalise_coarse", AFFINE, lambda x, a, b: x * a + b, b=fixed_point(12, 11), fraction=11, period=5, lanes=1,
        extra={"PRODUCT_LEFT": 2},
    ),
    Case("leaky", LEAKY, lambda x, a, b: x if x > 0 else x * a, fraction=9, period=1),
    Case("leaky_narrow", LEAKY, lambda x, a, b: x if x > 0 else x * a, a=fixed_point(3, 6), fraction=10, y=fixed_point(20, 10)),
    Case("prelu", LEAKY, lambda x, a, b: x if x > 0 else x * a, fraction=9, period=4, lanes=3),
    Case("threshold", THRESHOLD, lambda x, a, b: x if x > a else Fraction(0), a=fixed_point(9, 4), period=2),
    Case(
        "hard_sigmoid", AFFINE, lambda x, a, b: clamp(x / 4 + Fraction(1, 2), 0, 1), a=fixed_point(4, 3), b=fixed_point(4, 2),
        constant=(2, 2), fraction=7, period=1,
        extra={"OFFSET_LEFT": 5, "CLAMP_LOW": 1, "CLAMP_HIGH": 1, "HIGH": 128},
    ),
    Case(
        "hard_tanh", AFFINE, lambda x, a, b: 2 * clamp(x / 4 + Fraction(1, 2), 0, 1) - 1,
        a=fixed_point(4, 3), b=fixed_point(4, 2), constant=(4, 0), fraction=7, period=1,
        extra={"OFFSET_LEFT": 5, "CLAMP_LOW": 1, "CLAMP_HIGH": 1, "HIGH": 128, "LOW": -128},
    ),
    Case("binary", STEP, lambda x, a, b: Fraction(1 if x >= 0 else -1), a=fixed_point(8, 4), b=fixed_point(8, 4),
         constant=(-1, -1), period=1, fraction=0, y=fixed_point(2, 0)),
    Case("ternary", STEP, lambda x, a, b: Fraction(1 if x > a else 0 if x > b else -1),
         a=fixed_point(8, 4), b=fixed_point(8, 4), fraction=0, y=fixed_point(4, 1), constant=(8, -8)),
    Case("wide", AFFINE, lambda x, a, b: x * a + b, fixed_point(36, 16), fixed_point(30, 20), fixed_point(40, 30),
         fixed_point(40, 20), fraction=36, extra={"OFFSET_LEFT": 6}, lanes=1),
]  # fmt: skip


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == len(taken) - 1
