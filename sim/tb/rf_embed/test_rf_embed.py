# SPDX-License-Identifier: Apache-2.0
"""rf_embed: rows of the table, indices beyond its end, a beat out every clock, any stalls, reset in mid-row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hypersonic.sim.stream_bench import Beat, Dut, StreamBench, beats_of, pack


@dataclass(frozen=True)
class Case:
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
        parameters: dict[str, int | str] = {
            "X_WIDTH": self.bits[0], "X_FRACTION": self.bits[1], "VOCABULARY": self.vocabulary, "N_OUT": self.n_out,
            "LANES": self.lanes, "Y_WIDTH": self.width, "TABLE_FILE": f"{self.name}.hex",
        }  # fmt: skip
        words = [pack(row[at : at + self.lanes], self.width) for row in self.table() for at in range(0, self.n_out, self.lanes)]
        files = {f"{self.name}.hex": "\n".join(f"{word:x}" for word in words)}
        return Dut("rf_embed", parameters, {"s_axis": self.bits[0]}, self.lanes * self.width, files)

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        rng = random.Random(seed)
        table = self.table()
        source: list[Beat] = []
        sink: list[Beat] = []
        for _ in range(rows):
            indices = [rng.getrandbits(self.bits[0]) for _ in range(rng.randint(1, 6))]
            source += beats_of(indices, 1, self.bits[0])
            row = [value for index in indices for value in table[min(index >> self.bits[1], self.vocabulary - 1)]]
            sink += beats_of(row, self.lanes, self.width)
        return [source], sink


CASES = [
    Case("plain", (4, 0), 10, 4, 2),
    Case("one_beat", (3, 0), 8, 5, 5),
    Case("an_element_a_beat", (6, 2), 12, 3, 1),
    Case("wide_index", (20, 0), 3, 6, 2, 40),
    Case("one_row", (2, 1), 1, 1, 1),
    Case("narrow_index", (2, 0), 100, 3, 3),
]
IDS = [case.name for case in CASES]


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in CASES]) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_rows_are_the_tables_under_any_stalls_and_after_a_reset(bench: StreamBench, case: Case) -> None:
    bench.check(case.dut(), case.traffic, rows=20)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_beat_leaves_every_clock(bench: StreamBench, case: Case) -> None:
    inputs, expected = case.traffic(20, 1)
    taken = bench.run(case.dut(), *inputs, results=len(expected)).taken_at
    assert taken[-1] - taken[0] == len(expected) - 1
