# SPDX-License-Identifier: Apache-2.0
"""axis_tensor_unpack: unpacks runs of rows from beats of 16 words, each row in pieces of its tensors."""

from __future__ import annotations

import random
from math import ceil
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.converters import beats_literal
from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.sim.bus import Bench, Item, Sink, Source
from hypersonic.sim.cocotb_run import bench_test, run_bench


class TB:
    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        word, tensors = int(dut.WORD_WIDTH.value) // 8, int(dut.TENSORS.value)
        self.beat_bytes = int(dut.BEAT_WORDS.value) * word
        sizes, counts = (
            [int(value) >> 32 * t & 0xFFFF_FFFF for t in range(tensors)] for value in (dut.PIECE_WORDS.value, dut.PIECES.value)
        )
        self.pieces = [
            size * word for size, count in zip(sizes, counts, strict=True) for _ in range(count)
        ]  # bytes of each piece of a row
        self.runs = Source(dut, "s_axis_desc", ("rows",), self.rng, pause_in)
        self.beats = Source(dut, "s_axis", ("tdata",), self.rng, pause_in)
        self.given = Sink(dut, "m_axis", ("tdata", "tlast"), self.rng, pause_out)
        self.bench = Bench(dut, [self.runs, self.beats, self.given])
        self.expected: list[Item] = []

    def send(self, rows: int) -> None:
        self.runs.send(rows=rows)
        text = self.rng.randbytes(rows * sum(self.pieces))
        at = 0
        for piece in self.pieces * rows:
            self.expected.append({"tdata": int.from_bytes(text[at : at + piece], "little"), "tlast": 0})
            at += piece
        if rows:
            self.expected[-1]["tlast"] = 1
        text += self.rng.randbytes(-len(text) % self.beat_bytes)  # random bytes after the run's last row
        for begin in range(0, len(text), self.beat_bytes):
            self.beats.send(tdata=int.from_bytes(text[begin : begin + self.beat_bytes], "little"))

    async def check(self) -> None:
        await self.bench.until(lambda: len(self.given.received) >= len(self.expected))
        await self.bench.step(10)
        masks = [(1 << 8 * piece) - 1 for piece in self.pieces]
        received = [
            {**item, "tdata": item["tdata"] & masks[index % len(masks)]} for index, item in enumerate(self.given.received)
        ]
        assert received == self.expected
        assert self.beats.idle
        assert self.runs.idle


@bench_test
async def pieces_of_every_run_come_whole_and_unmixed(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)]):
        tb = TB(dut, pause_in, pause_out, seed)
        await tb.bench.reset()
        for rows in (1, 0, 2, 5, 0, 0, 1, 3, *(tb.rng.randrange(1, 9) for _ in range(8))):
            tb.send(rows)
        await tb.check()


@bench_test
async def the_slower_side_sets_the_pace_across_runs(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for _ in range(3):
        tb.send(20)
    await tb.bench.until(lambda: len(tb.given.received) == len(tb.expected))
    # one piece per clock or one beat per clock, whichever is slower; this holds for each piece, not only for the total
    clocks = sum(max(1, piece / tb.beat_bytes) for piece in tb.pieces)
    assert tb.bench.clocks <= 60 * ceil(clocks) + 3 * 2 + 8


@bench_test
async def reset_in_mid_run_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, 0.2, 0.2)
    await tb.bench.reset()
    for clocks in (3, 10, 31):
        tb.send(30)
        await tb.bench.step(clocks)
        await tb.bench.reset(1)
        tb.expected.clear()
        tb.given.received.clear()
        for _ in range(3):
            tb.send(tb.rng.randrange(1, 6))
        await tb.check()
        tb.expected.clear()
        tb.given.received.clear()


#: the words of each tensor, and its pieces
SHAPES: dict[str, tuple[list[int], list[int]]] = {
    "one": ([3], [5]),
    "one_of_many_words": ([40], [3]),
    "three": ([4, 15, 6], [6, 1, 4]),
    "two": ([1, 32], [7, 2]),
}


def test_axis_tensor_unpack(tmp_path: Path) -> None:
    sets = {
        name: {
            "WORD_WIDTH": 16, "TENSORS": len(words), "MOST_WORDS": max(words),
            "PIECE_WORDS": beats_literal(words), "PIECES": beats_literal(pieces),
        }
        for name, (words, pieces) in SHAPES.items()
    }  # fmt: skip
    run_bench(tmp_path, "axis_tensor_unpack", rtl_sources("axis_tensor_unpack"), __name__, sets=sets)
