# SPDX-License-Identifier: Apache-2.0
"""rf_mac against sums of Python integers: shapes, types, product rounding, full throughput, any stalls, reset in mid-vector."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.sim.stream_bench import Beat, Dut, Stalls, StreamBench, beats_of, pack, unpack

#: makes a type from its width and its number of fraction bits
fixed_point = FixedPoint.with_fraction

RESULT = fixed_point(8, 4, True, Rounding.RND_CONV, Overflow.SAT)


class Case(NamedTuple):
    """One engine. x, w, accumulator, result: types; vectors: their number in a row, which take matrices and biases in turn."""

    name: str
    n_in: int
    n_out: int
    p: int
    q: int
    x: FixedPoint = fixed_point(8, 4)
    w: FixedPoint = fixed_point(8, 6)
    accumulator: FixedPoint = fixed_point(24, 10)
    result: FixedPoint = RESULT
    vectors: int = 1
    matrices: int = 1
    biases: int = 1

    @property
    def reuse(self) -> int:
        return (self.n_in // self.p) * (self.n_out // self.q)

    def weights(self) -> list[list[list[int]]]:
        rng, ends = random.Random(f"{self.name} weights"), (self.w.min_raw, self.w.max_raw)
        return [[[rng.randint(*ends) for _ in range(self.n_out)] for _ in range(self.n_in)] for _ in range(self.matrices)]

    def bias(self) -> list[list[int]]:
        rng, ends = random.Random(f"{self.name} bias"), (self.accumulator.min_raw >> 3, self.accumulator.max_raw >> 3)
        return [[rng.randint(*ends) for _ in range(self.n_out)] for _ in range(self.biases)]

    def files(self) -> dict[str, str]:
        weights, beats = self.weights(), self.n_in // self.p
        words = [
            pack([matrix[b * self.p + p][og * self.q + q] for q in range(self.q) for p in range(self.p)], self.w.width)
            for matrix in weights
            for og in range(self.n_out // self.q)
            for b in range(beats)
        ]
        biases = [
            pack(bias[at : at + self.q], self.accumulator.width) for bias in self.bias() for at in range(0, self.n_out, self.q)
        ]
        return {
            f"{self.name}_w.hex": "\n".join(f"{word:x}" for word in words),
            f"{self.name}_b.hex": "\n".join(f"{word:x}" for word in biases),
        }

    def dut(self) -> Dut:
        parameters: dict[str, int | str] = {
            "N_IN": self.n_in, "N_OUT": self.n_out, "P": self.p, "Q": self.q, "MATRICES": self.matrices, "BIASES": self.biases,
            "X_WIDTH": self.x.width, "X_SIGNED": int(self.x.signed), "W_WIDTH": self.w.width,
            "PRODUCT_SHIFT": self.x.fraction + self.w.fraction - self.accumulator.fraction,
            "PRODUCT_ROUNDING": ROUNDING_CODES[self.accumulator.rounding],
            "ACC_WIDTH": self.accumulator.width, "ACC_SIGNED": int(self.accumulator.signed),
            "RESULT_SHIFT": self.accumulator.fraction - self.result.fraction,
            "Y_WIDTH": self.result.width, "Y_SIGNED": int(self.result.signed),
            "ROUNDING": ROUNDING_CODES[self.result.rounding], "OVERFLOW": OVERFLOW_CODES[self.result.overflow],
            "WEIGHTS": f"{self.name}_w.hex", "BIAS": f"{self.name}_b.hex",
        }  # fmt: skip
        return Dut("rf_mac", parameters, {"s_axis": self.p * self.x.width}, self.q * self.result.width, self.files())

    def rows(self, count: int, seed: int) -> list[list[int]]:
        rng = random.Random(seed)
        ends = [self.x.min_raw, self.x.max_raw]
        size = self.vectors * self.n_in
        return [[rng.choice(ends) if rng.random() < 0.1 else rng.randint(*ends) for _ in range(size)] for _ in range(count)]

    def beats(self, rows: list[list[int]]) -> list[Beat]:
        return [beat for row in rows for beat in beats_of(row, self.p, self.x.width)]

    def expected(self, rows: list[list[int]]) -> list[int]:
        weights, bias = self.weights(), self.bias()
        fraction = self.x.fraction + self.w.fraction
        out = []
        for v, x in enumerate(row[at : at + self.n_in] for row in rows for at in range(0, len(row), self.n_in)):
            matrix, start = weights[v % self.matrices], bias[v % self.biases]
            for j in range(self.n_out):
                products = (x[i] * matrix[i][j] for i in range(self.n_in))
                total = start[j] + sum(self.accumulator.cast(product, fraction) for product in products)
                out.append(self.result.cast(self.accumulator.confine(total), self.accumulator.fraction))
        return out

    def results(self, beats: list[Beat]) -> list[int]:
        return [raw for beat in beats for raw in unpack(beat.data, self.q, self.result.width, self.result.signed)]


CASES = [
    Case("plain", 12, 6, 3, 2),
    Case("one_vector_a_clock", 6, 4, 6, 4),
    Case("one_beat", 5, 6, 5, 1),
    Case("one_group", 12, 3, 4, 3),
    Case("one_multiplier", 3, 2, 1, 1),
    Case("one_product", 1, 1, 1, 1),
    Case("two_beats_two_groups", 4, 4, 2, 2, vectors=3),
    Case("conv", 18, 4, 9, 2, vectors=5),
    Case("matrices", 6, 4, 3, 2, vectors=6, matrices=2, biases=2),
    Case("matrices_of_one_word", 3, 2, 3, 2, vectors=6, matrices=3, biases=6),
    Case("matrices_of_one_group", 4, 2, 2, 2, vectors=4, matrices=4),
    Case("biases", 4, 4, 2, 1, vectors=3, biases=3),
    Case("deep_buffer", 1026, 2, 1, 1),
    Case("odd_tree", 22, 2, 11, 1),
    Case("unsigned", 12, 4, 3, 2, x=fixed_point(7, 5, False), result=fixed_point(6, 2, False, Rounding.RND, Overflow.SAT)),
    Case("cut", 12, 4, 4, 2, accumulator=fixed_point(14, 5), result=fixed_point(10, 6, True)),
    Case("cut_rounded", 12, 4, 4, 2, accumulator=fixed_point(14, 5, True, Rounding.RND)),
    Case("cut_all", 8, 2, 4, 2, accumulator=fixed_point(6, -7), result=fixed_point(6, -7)),
    Case("cut_all_rounded", 8, 2, 4, 2, accumulator=fixed_point(6, -7, True, Rounding.RND), result=fixed_point(6, -7)),
    Case("shifted_left", 12, 4, 4, 2, accumulator=fixed_point(30, 15)),
    Case("wraps", 16, 4, 8, 2, accumulator=fixed_point(11, 10), result=fixed_point(8, 8)),
    Case("unsigned_accumulator", 8, 2, 4, 2, accumulator=fixed_point(20, 10, False)),
    Case(
        "wide",
        6,
        2,
        3,
        2,
        fixed_point(24, 12),
        fixed_point(27, 20),
        fixed_point(60, 32),
        fixed_point(32, 16, True, Rounding.RND),
    ),
    Case("binary", 32, 2, 16, 2, fixed_point(1, 0, False), fixed_point(2, 0), fixed_point(8, 0), fixed_point(8, 0)),
]
IDS = [case.name for case in CASES]


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in CASES]) as opened:
        yield opened


def check(bench: StreamBench, case: Case, count: int, stalls: tuple[int, int] = (0, 0), seed: int = 1) -> list[int]:
    """Run rows and compare the results and tlast. Returns the clock at which each beat of results was taken."""
    rows = case.rows(count, seed)
    groups = case.n_out // case.q
    answer = bench.run(case.dut(), case.beats(rows), results=count * case.vectors * groups, stalls=Stalls(*stalls, seed=seed))
    assert case.results(answer.beats) == case.expected(rows)
    a_row = case.vectors * groups
    assert [beat.last for beat in answer.beats] == [i % a_row == a_row - 1 for i in range(count * a_row)]
    return answer.taken_at


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_integers_are_exact_under_any_stalls(bench: StreamBench, case: Case) -> None:
    for seed, stalls in enumerate([(0, 0), (200, 0), (0, 200), (100, 100), (20, 20)]):
        check(bench, case, 12, stalls, seed)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_vector_takes_reuse_factor_clocks(bench: StreamBench, case: Case) -> None:
    taken = check(bench, case, 40)
    vectors = len(taken) // (case.n_out // case.q)
    last = taken[case.n_out // case.q - 1 :: case.n_out // case.q]
    assert last[-1] - last[0] == (vectors - 1) * case.reuse


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reset_in_mid_vector_leaves_nothing_behind(bench: StreamBench, case: Case) -> None:
    for clocks in (1, 3, 8, 13, 30):
        bench.run(case.dut(), case.beats(case.rows(20, clocks)), results=9999, stalls=Stalls(20, 60), clock_limit=clocks)
        bench.reset()
        check(bench, case, 3, seed=clocks)
