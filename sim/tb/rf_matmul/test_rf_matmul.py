# SPDX-License-Identifier: Apache-2.0
"""rf_matmul against products of matrices in Python: types, sizes, streams that stall independently, throughput, reset."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import pytest

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.sim.stream_bench import Beat, Dut, StreamBench, beats_of

#: makes a type from its width and its number of fraction bits
fixed_point = FixedPoint.with_fraction


class Case(NamedTuple):
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
        parameters: dict[str, int | str] = {
            "N_IN": self.n_in, "N_OUT": self.n_out, "P": self.p, "Q": self.q, "VECTORS": self.vectors,
            "X_WIDTH": self.a.width, "X_SIGNED": int(self.a.signed), "W_WIDTH": self.b.width, "W_SIGNED": int(self.b.signed),
            "PRODUCT_SHIFT": self.a.fraction + self.b.fraction - self.accum.fraction,
            "PRODUCT_ROUNDING": int(self.accum.rounding is Rounding.RND), "ACC_WIDTH": self.accum.width,
            "ACC_SIGNED": int(self.accum.signed), "RESULT_SHIFT": self.accum.fraction - self.y.fraction,
            "Y_WIDTH": self.y.width, "Y_SIGNED": int(self.y.signed),
            "ROUNDING": ROUNDING_CODES[self.y.rounding], "OVERFLOW": OVERFLOW_CODES[self.y.overflow],
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

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)

        def drawn(kind: FixedPoint, count: int) -> list[list[int]]:
            ends = [kind.min_raw, kind.max_raw]
            return [
                [rng.choice([*ends, *(rng.randint(*ends) for _ in range(4))]) for _ in range(self.n_in)] for _ in range(count)
            ]

        streams: list[list[Beat]] = [[], [], []]
        for _ in range(rows):
            left, right, results = list[int](), list[int](), list[int]()
            for _ in range(self.matrices):
                lines, columns = drawn(self.a, self.vectors), drawn(self.b, self.n_out)
                left += chain.from_iterable(lines)
                right += [
                    columns[j + q][i + p]
                    for j in range(0, self.n_out, self.q)
                    for i in range(0, self.n_in, self.p)
                    for q in range(self.q)
                    for p in range(self.p)
                ]
                results += [self.result(line, column) for line in lines for column in columns]
            beats = ((left, self.p, self.a), (right, self.p * self.q, self.b), (results, self.q, self.y))
            for stream, (row, lanes, kind) in zip(streams, beats, strict=True):
                stream.extend(beats_of(row, lanes, kind.width))
        return streams[:2], streams[2]


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
IDS = [case.name for case in CASES]


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in CASES]) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_integers_are_exact_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case.dut(), case.traffic, rows=12)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_vectors_follow_each_other_without_a_gap(bench: StreamBench, case: Case) -> None:
    inputs, expected = case.traffic(20, 1)
    taken = bench.run(case.dut(), *inputs, results=len(expected)).taken_at
    groups = case.n_out // case.q
    vectors = len(expected) // groups
    assert taken[-1] - taken[groups - 1] == (vectors - 1) * case.reuse_factor
