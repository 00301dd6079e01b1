# SPDX-License-Identifier: Apache-2.0
"""rf_concat: groups of both streams in turn, every beat once, for stalls on any side, reset in mid-group."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.bench_cases import RowCase
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench


@dataclass(frozen=True)
class Case(RowCase):
    """One instance: the beats of a group of each stream, and their width."""

    a: int
    b: int
    width: int

    def dut(self) -> Dut:
        parameters = {"WIDTH": self.width, "A_BEATS": self.a, "B_BEATS": self.b}
        return Dut("rf_concat", parameters, {"s_axis_a": self.width, "s_axis_b": self.width}, self.width)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        inputs: tuple[list[Beat], list[Beat]] = ([], [])
        sink: list[Beat] = []
        groups = rng.randint(1, 5)
        for group in range(groups):
            for which, beats in ((0, self.a), (1, self.b)):
                data = [rng.getrandbits(self.width) for _ in range(beats)]
                last = [group + 1 == groups and i + 1 == beats for i in range(beats)]
                inputs[which].extend(map(Beat, data, last))
                sink += [Beat(word, which == 1 and end) for word, end in zip(data, last, strict=True)]
        return *inputs, sink


CASES = [Case(2, 1, 8), Case(1, 1, 3), Case(1, 4, 8), Case(5, 3, 70)]


def test_both_come_in_turn_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_passes_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 20)
    assert taken[-1] - taken[0] == len(taken) - 1
