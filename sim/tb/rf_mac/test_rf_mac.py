# SPDX-License-Identifier: Apache-2.0
"""rf_mac against sums of Python integers: shapes, types, product rounding, full throughput, any stalls, reset in mid-vector."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import RowCase, fixed_point, hex_text, products, result
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of, pack

RESULT = fixed_point(8, 4, True, Rounding.RND_CONV, Overflow.SAT)


@dataclass(frozen=True)
class Case(RowCase):
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
        return {f"{self.name}_w.hex": hex_text(words), f"{self.name}_b.hex": hex_text(biases)}

    def dut(self) -> Dut:
        parameters = {
            "N_IN": self.n_in, "N_OUT": self.n_out, "P": self.p, "Q": self.q, "MATRICES": self.matrices, "BIASES": self.biases,
            **products(self.x, self.w, self.accumulator), **result(self.result, self.accumulator.fraction),
            "WEIGHTS": f"{self.name}_w.hex", "BIAS": f"{self.name}_b.hex",
        }  # fmt: skip
        return Dut("rf_mac", parameters, {"s_axis": self.p * self.x.width}, self.q * self.result.width, self.files())

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        ends = [self.x.min_raw, self.x.max_raw]
        size = self.vectors * self.n_in
        row = [rng.choice(ends) if rng.random() < 0.1 else rng.randint(*ends) for _ in range(size)]
        return beats_of(row, self.p, self.x.width), beats_of(self.expected(row), self.q, self.result.width)

    def expected(self, row: list[int]) -> list[int]:
        weights, bias = self.weights(), self.bias()
        fraction = self.x.fraction + self.w.fraction
        out = []
        for v in range(self.vectors):
            x, matrix, start = row[v * self.n_in :], weights[v % self.matrices], bias[v % self.biases]
            for j in range(self.n_out):
                products = (x[i] * matrix[i][j] for i in range(self.n_in))
                total = start[j] + sum(self.accumulator.cast(product, fraction) for product in products)
                out.append(self.result.cast(self.accumulator.confine(total), self.accumulator.fraction))
        return out


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
    Case("wide", 6, 2, 3, 2, fixed_point(24, 12), fixed_point(27, 20), fixed_point(60, 32),
         fixed_point(32, 16, True, Rounding.RND)),
    Case("binary", 32, 2, 16, 2, fixed_point(1, 0, False), fixed_point(2, 0), fixed_point(8, 0), fixed_point(8, 0)),
]  # fmt: skip


def test_integers_are_exact_under_any_stalls_and_after_a_reset_in_mid_vector(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20, reset_after=(1, 3, 8, 13, 30))


def test_a_vector_takes_reuse_factor_clocks(bench: StreamBench, case: Case) -> None:
    last = bench.taken_at(case, 40)[case.n_out // case.q - 1 :: case.n_out // case.q]
    assert last[-1] - last[0] == (len(last) - 1) * case.reuse
