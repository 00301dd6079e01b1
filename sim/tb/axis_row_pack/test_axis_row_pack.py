# SPDX-License-Identifier: Apache-2.0
"""axis_row_pack: packs rows of any length into beats of 16 words, and flushes at each run's end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.sim.bus import Bench, Item, Sink, Source
from hypersonic.sim.cocotb_run import bench_test, run_bench


class TB:
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        word = int(dut.WORD_WIDTH.value) // 8
        self.beat_bytes, self.row_bytes = int(dut.BEAT_WORDS.value) * word, int(dut.ROW_WORDS.value) * word
        self.rows = Source(dut, "s_axis", ("tdata", "tlast"), self.rng, pause_in)
        self.beats = Sink(dut, "m_axis", ("tdata", "tlast"), self.rng, pause_out)
        self.bench = Bench(dut, [self.rows, self.beats])
        self.expected: list[Item] = []

    def send(self, rows: int) -> None:
        text = self.rng.randbytes(rows * self.row_bytes)
        for row in range(rows):
            value = int.from_bytes(text[row * self.row_bytes : (row + 1) * self.row_bytes], "little")
            self.rows.send(tdata=value, tlast=int(row == rows - 1))
        for at in range(0, len(text), self.beat_bytes):
            value = int.from_bytes(text[at : at + self.beat_bytes], "little")
            self.expected.append({"tdata": value, "tlast": int(at + self.beat_bytes >= len(text))})

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.beats.received) >= len(self.expected))
        await self.bench.step(10)
        assert self.beats.received == self.expected
        assert self.rows.idle


@bench_test
async def beats_are_packed_tightly_and_flushed_with_each_run(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.bench.reset()
        for rows in (1, 2, 15, 16, 17, 1, 1, 3, *(tb.rng.randrange(1, 40) for _ in range(20))):
            tb.send(rows)
        await tb.check()


@bench_test
async def the_slower_side_sets_the_pace_across_runs(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for _ in range(4):
        tb.send(160)
    await tb.bench.until(lambda: len(tb.beats.received) == len(tb.expected))
    assert tb.bench.clocks <= 640 * max(1, tb.row_bytes / tb.beat_bytes) + 4 * 2 + 8


@bench_test
async def reset_in_mid_run_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, 0.2, 0.2)
    await tb.bench.reset()
    for clocks in (3, 10, 31):
        tb.send(200)
        await tb.bench.step(clocks)
        await tb.bench.reset(1)
        tb.expected.clear()
        tb.beats.received.clear()
        for _ in range(5):
            tb.send(tb.rng.randrange(1, 20))
        await tb.check()
        tb.expected.clear()
        tb.beats.received.clear()


SETS = {f"words_{words}": {"WORD_WIDTH": 16, "ROW_WORDS": words} for words in (1, 3, 16, 40)}


def test_axis_row_pack(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_row_pack", rtl_sources("axis_row_pack"), __name__, sets=SETS)
