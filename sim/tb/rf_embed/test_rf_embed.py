# SPDX-License-Identifier: Apache-2.0
"""rf_embed: rows of the table, indices beyond its end, a beat out every clock, any stalls, reset in mid-row."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.rtl.bench_cases import Parameters, RowCase, hex_text
from tests.support.rtl.stream_bench import Beat, Dut, StreamBench, beats_of, pack


@dataclass(frozen=True)
class Case(RowCase):
    """One instance. bits: the bits of an index, and the fraction bits among them."""

    name: str
    bits: tuple[int, int]
    vocabulary: int
    n_out: int
    lanes: int
    width: int = 8

    def table(self) -> list[list[int]]:
        rng = random.Random(self.name)
        return [[rng.getrandbits(self.width) for _ in range(self.n_out)] for _ in range(self.vocabulary)]

    def dut(self) -> Dut:
        parameters: Parameters = {
            "X_WIDTH": self.bits[0], "X_FRACTION": self.bits[1], "VOCABULARY": self.vocabulary, "N_OUT": self.n_out,
            "LANES": self.lanes, "Y_WIDTH": self.width, "TABLE_FILE": f"{self.name}.hex",
        }  # fmt: skip
        words = [pack(row[at : at + self.lanes], self.width) for row in self.table() for at in range(0, self.n_out, self.lanes)]
        files = {f"{self.name}.hex": hex_text(words)}
        return Dut("rf_embed", parameters, {"s_axis": self.bits[0]}, self.lanes * self.width, files)

    def row(self, rng: random.Random) -> tuple[list[Beat], ...]:
        table = self.table()
        indices = [rng.getrandbits(self.bits[0]) for _ in range(rng.randint(1, 6))]
        row = [value for index in indices for value in table[min(index >> self.bits[1], self.vocabulary - 1)]]
        return beats_of(indices, 1, self.bits[0]), beats_of(row, self.lanes, self.width)


CASES = [
    Case("plain", (4, 0), 10, 4, 2),
    Case("one_beat", (3, 0), 8, 5, 5),
    Case("an_element_a_beat", (6, 2), 12, 3, 1),
    Case("wide_index", (20, 0), 3, 6, 2, 40),
    Case("one_row", (2, 1), 1, 1, 1),
    Case("narrow_index", (2, 0), 100, 3, 3),
]


def test_rows_are_the_tables_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case, rows=20)


def test_a_beat_leaves_every_clock(bench: StreamBench, case: Case) -> None:
    taken = bench.taken_at(case, 20)
    assert taken[-1] - taken[0] == len(taken) - 1
