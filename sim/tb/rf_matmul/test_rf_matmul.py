# SPDX-License-Identifier: Apache-2.0
"""rf_matmul against products of matrices in Python: types, sizes, streams that stall independently, throughput, reset."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import chain

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from tests.support.rtl.bench_cases import Parameters, RowCase, fixed_point, products, result
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. A row has `matrices` matrices of n_in x n_out, each for `vectors` vectors."""

    name: str
    n_in: int
    n_out: int
    p: int
    q: int
    vectors: int
    matrices: int = 2
    a: FixedPoint = fixed_point(8, 4)
    b: FixedPoint = fixed_point(6, 3)
    accum: FixedPoint = fixed_point(20, 7)
    y: FixedPoint = fixed_point(9, 4, True, Rounding.RND_CONV, Overflow.SAT)

    @property
    def reuse_factor(self) -> int:
        return self.n_in // self.p * (self.n_out // self.q)

    def dut(self) -> Dut:
        parameters: Parameters = {
            "N_IN": self.n_in, "N_OUT": self.n_out, "P": self.p, "Q": self.q, "VECTORS": self.vectors,
            **products(self.a, self.b, self.accum), "W_SIGNED": int(self.b.signed), **result(self.y, self.accum.fraction),
        }  # fmt: skip
        inputs = {"s_axis_a": self.p * self.a.width, "s_axis_b": self.p * self.q * self.b.width}
        return Dut("rf_matmul", parameters, inputs, self.q * self.y.width)

    def result(self, a: list[int], b: list[int]) -> int:
        """As nnet_einsum.h: the accumulator is cast after every product."""
        total, fraction = 0, self.a.fraction + self.b.fraction
        fine = max(fraction, self.accum.fraction)
        for x, w in zip(a, b, strict=True):
            total = self.accum.cast((total << fine - self.accum.fraction) + (x * w << fine - fraction), fine)
        return self.y.cast(total, self.accum.fraction)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:

        def lines(kind: FixedPoint, count: int) -> list[list[int]]:
            ends = [kind.min_raw, kind.max_raw]
            return [
                [rng.choice([*ends, *(rng.randint(*ends) for _ in range(4))]) for _ in range(self.n_in)] for _ in range(count)
            ]

        left, right, results = list[int](), list[int](), list[int]()
        for _ in range(self.matrices):
            vectors, columns = lines(self.a, self.vectors), lines(self.b, self.n_out)
            left += chain.from_iterable(vectors)
            right += [
                columns[j + q][i + p]
                for j in range(0, self.n_out, self.q)
                for i in range(0, self.n_in, self.p)
                for q in range(self.q)
                for p in range(self.p)
            ]
            results += [self.result(vector, column) for vector in vectors for column in columns]
        beats = ((left, self.p, self.a), (right, self.p * self.q, self.b), (results, self.q, self.y))
        return tuple(beats_of(row, lanes, kind.width) for row, lanes, kind in beats)


CASES = [
    Case("several_groups", 6, 4, 3, 2, vectors=3),
    Case("one_group", 6, 4, 2, 4, vectors=2, matrices=3),
    Case("one_word", 3, 2, 3, 2, vectors=3),
    Case("one_multiplier", 4, 3, 1, 1, vectors=2),
    Case("a_vector_to_a_matrix", 4, 4, 2, 2, vectors=1, matrices=3),
    Case("a_word_to_a_vector", 2, 2, 2, 2, vectors=1, matrices=4),
    Case("unsigned", 4, 4, 2, 2, 2, a=fixed_point(7, 5, False), b=fixed_point(5, 5, False), accum=fixed_point(16, 10, False)),
    Case("mixed", 4, 2, 4, 1, 2, b=fixed_point(8, 8, False), accum=fixed_point(15, 6, True, Rounding.RND)),
    Case("finer_accumulator", 4, 2, 2, 2, 2, accum=fixed_point(12, 10)),
    Case("wide", 4, 2, 2, 1, 2, a=fixed_point(30, 20), b=fixed_point(28, 22), accum=fixed_point(60, 40), y=fixed_point(40, 20)),
]


def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=12)


def test_vectors_follow_each_other_without_a_gap(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 20)
    groups = case.n_out // case.q
    vectors = len(taken) // groups
    assert taken[-1] - taken[groups - 1] == (vectors - 1) * case.reuse_factor
