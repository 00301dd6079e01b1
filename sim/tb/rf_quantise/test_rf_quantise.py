# SPDX-License-Identifier: Apache-2.0
"""rf_quantise against ap_fixed's casts: a type for each element, every mode, any stalls, types that repeat, reset."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.quantise import ElementType, Quantise
from hypersonic.hls.rf.stage import Stream
from hypersonic.hls.rf.stages.quantise import quantise_stage
from tests.support.rtl.bench_cases import RowCase, fixed_point, stage_dut
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. none: whether some elements have no bits."""

    name: str
    rounding: Rounding
    overflow: Overflow
    x: FixedPoint = fixed_point(9, 4)
    y: FixedPoint = fixed_point(24, 12)
    lanes: int = 2
    period: int = 3
    repeats: int = 2
    none: bool = True

    def types(self) -> tuple[ElementType, ...]:
        rng = random.Random(self.name)
        drawn: list[ElementType] = []
        for _ in range(self.period * self.lanes):
            width, fraction = rng.randint(1, 12), rng.randint(-3, 8)
            kind = fixed_point(max(width, 2), fraction, rng.random() < 0.6, self.rounding, self.overflow)
            drawn.append(None if self.none and rng.random() < 0.2 else kind)
        return tuple(drawn) * self.repeats

    def dut(self) -> Dut:
        size = len(self.types())
        layer = Quantise("q", Tensor("x", (size,), self.x), Tensor("y", (size,), self.y), self.types())
        x, y = (Stream(name, kind, self.lanes, size // self.lanes) for name, kind in (("x", self.x), ("y", self.y)))
        stage = quantise_stage(self.name, layer, x, y)
        assert stage.parameters["PERIOD"] == self.period
        return stage_dut("rf_quantise", stage)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        row = [rng.choice([0, 1, -1 * self.x.signed, self.x.min_raw, self.x.max_raw, self._any(rng)]) for _ in self.types()]
        results = [self.result(x, kind) for x, kind in zip(row, self.types(), strict=True)]
        return beats_of(row, self.lanes, self.x.width), beats_of(results, self.lanes, self.y.width)

    def _any(self, rng: random.Random) -> int:
        return rng.randint(self.x.min_raw, self.x.max_raw)

    def result(self, x: int, kind: ElementType) -> int:
        return 0 if kind is None else self.y.cast(kind.cast(x, self.x.fraction), kind.fraction)


CASES = [
    Case("truncated", Rounding.TRN, Overflow.WRAP),
    Case("rounded", Rounding.RND, Overflow.WRAP, lanes=3, period=2),
    Case("convergent", Rounding.RND_CONV, Overflow.WRAP, x=fixed_point(10, 7)),
    Case("saturated", Rounding.RND, Overflow.SAT, x=fixed_point(12, 6)),
    Case("symmetric", Rounding.RND_CONV, Overflow.SAT_SYM, lanes=1, period=5, repeats=1),
    Case("of_unsigned", Rounding.TRN, Overflow.SAT, x=fixed_point(8, 4, False), none=False),
    Case("wrapping_unsigned", Rounding.RND, Overflow.WRAP, x=fixed_point(8, 2, False), y=fixed_point(9, 3, True, Rounding.RND)),
    Case("coarse", Rounding.RND, Overflow.WRAP, x=fixed_point(20, 12), y=fixed_point(6, 1), lanes=1, period=1, none=False),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=25)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    np.testing.assert_array_equal(np.diff(taken), 1)
