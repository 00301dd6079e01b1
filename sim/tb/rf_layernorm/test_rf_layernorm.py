# SPDX-License-Identifier: Apache-2.0
"""rf_layernorm against hls4ml's steps in Python integers: sums that saturate or wrap, beats of any size, stalls, reset."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Tensor
from hypersonic.hls.network.layers.layernorm import LayerNorm, normalised_vector
from hypersonic.hls.rf.stage import Stage, Stream
from hypersonic.hls.rf.stages.layernorm import layernorm_stage
from tests.support.rtl.bench_cases import RowCase, fixed_point, stage_dut
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of

#: hls4ml's own type
SATURATES = fixed_point(14, 10, True, Rounding.RND_CONV, Overflow.SAT)


@dataclass(frozen=True)
class Case(RowCase):
    name: str
    n: int
    lanes: int
    accum: FixedPoint = SATURATES
    x: FixedPoint = fixed_point(8, 4)
    y: FixedPoint = fixed_point(12, 6, True, Rounding.RND, Overflow.SAT)
    size: int = 64
    spread: int = 0

    def layer(self) -> LayerNorm:
        rng = np.random.default_rng(list(self.name.encode()))
        x, y = (Tensor(name, (2, self.n), kind) for name, kind in (("x", self.x), ("y", self.y)))
        scale, bias = Constants(rng.integers(-40, 40, self.n), 4), Constants(rng.integers(-99, 99, self.n), 7)
        share = int(self.accum.from_float(np.array([1 / self.n]))[0])
        values = Constants(rng.integers(0, 255, self.size), 3)
        return LayerNorm("s", x, y, scale, bias, share, self.accum, values, self.spread)

    def stage(self) -> Stage:
        beats = 2 * self.n // self.lanes
        x, y = (Stream(name, kind, self.lanes, beats) for name, kind in (("x", self.x), ("y", self.y)))
        return layernorm_stage(self.name, self.layer(), x, y)

    def dut(self) -> Dut:
        return stage_dut("rf_layernorm", self.stage())

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        layer, row = self.layer(), list[int]()
        for _ in range(rng.randint(1, 3)):
            most = rng.choice([1, 9, self.x.max_raw])  # near each other, or at the ends of the range
            row += [rng.choice([-most, most, rng.randint(-most, most)]) for _ in range(self.n)]
        row = [max(value, self.x.min_raw) for value in row]
        y = [value for at in range(0, len(row), self.n) for value in normalised_vector(layer, row[at : at + self.n])]
        return beats_of(row, self.lanes, self.x.width), beats_of(y, self.lanes, self.y.width)


CASES = [
    Case("saturates", 8, 2),
    Case("saturates_in_a_beat", 7, 7),
    Case("saturates_one_by_one", 5, 1),
    Case("saturates_symmetrically", 12, 6, fixed_point(12, 8, True, Rounding.TRN, Overflow.SAT_SYM)),
    Case("saturates_without_a_sign", 6, 3, fixed_point(13, 9, False, Rounding.RND, Overflow.SAT), fixed_point(8, 4, False)),
    Case("wraps", 6, 2, fixed_point(14, 10), spread=1),
    Case("wraps_in_a_beat", 5, 5, fixed_point(11, 7, True, Rounding.RND_INF)),
    Case("coarse", 4, 2, fixed_point(6, -2, True, Rounding.RND), fixed_point(8, 0), size=1),
    Case("wide", 6, 2, fixed_point(24, 14, True, Rounding.RND, Overflow.SAT), fixed_point(16, 8), size=1024),
    Case("wide_wraps", 6, 3, fixed_point(27, 14), fixed_point(16, 8), size=1024),
    Case("one", 1, 1),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 30)
    assert taken[-1] - taken[0] == len(taken) - 1


def test_a_result_comes_when_the_stage_says(bench: StreamBench, case: Case) -> None:
    first = bench.taken_at(case, 1)[0]
    assert first == case.n // case.lanes - 1 + case.stage().timing.latency
