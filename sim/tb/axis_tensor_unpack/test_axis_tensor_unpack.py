# SPDX-License-Identifier: Apache-2.0
"""axis_tensor_unpack: unpacks runs of rows from beats of 16 words, each row in pieces of its tensors."""

from __future__ import annotations

import random
from math import ceil
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.converters import beats_literal
from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Agent, Item, Source, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


class TB(StreamTB):
    sink_fields = ("tdata", "tlast")

    def others(self) -> list[Agent]:
        dut, tensors = self.dut, range(int(self.dut.TENSORS.value))
        word = int(dut.WORD_WIDTH.value) // 8
        self.beat_bytes = int(dut.BEAT_WORDS.value) * word
        sizes, counts = ([int(port.value) >> 32 * t & 0xFFFF_FFFF for t in tensors] for port in (dut.PIECE_WORDS, dut.PIECES))
        # bytes of each piece of a row
        self.pieces = [size * word for size, count in zip(sizes, counts, strict=True) for _ in range(count)]
        self.runs = Source(dut, "s_axis_desc", ("rows",), self.rng, self.pause_in)
        return [self.runs]

    def send(self, count: int) -> None:
        self.runs.send(rows=count)
        text = self.rng.randbytes(count * sum(self.pieces))
        at = 0
        for piece in self.pieces * count:
            self.expected.append({"tdata": int.from_bytes(text[at : at + piece], "little"), "tlast": 0})
            at += piece
        if count:
            self.expected[-1]["tlast"] = 1
        text += self.rng.randbytes(-len(text) % self.beat_bytes)  # random bytes after the run's last row
        for begin in range(0, len(text), self.beat_bytes):
            self.source.send(tdata=int.from_bytes(text[begin : begin + self.beat_bytes], "little"))

    def received(self) -> list[Item]:
        masks = [(1 << 8 * piece) - 1 for piece in self.pieces]
        return [{**item, "tdata": item["tdata"] & masks[index % len(masks)]} for index, item in enumerate(self.sink.received)]


@bench_test
async def pieces_of_every_run_come_whole_and_unmixed(dut: Any) -> None:
    rows = random.Random(1).choices(range(1, 9), k=8)
    await TB.check_pauses(dut, 1, 0, 2, 5, 0, 0, 1, 3, *rows, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)))


@bench_test
async def the_slower_side_sets_the_pace_across_runs(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for _ in range(3):
        tb.send(20)
    await tb.bench.until(lambda: len(tb.sink.received) == len(tb.expected))
    # one piece per clock or one beat per clock, whichever is slower; this holds for each piece, not only for the total
    clocks = sum(max(1, piece / tb.beat_bytes) for piece in tb.pieces)
    assert tb.bench.clocks <= 60 * ceil(clocks) + 3 * 2 + 8


@bench_test
async def reset_in_mid_run_leaves_nothing_behind(dut: Any) -> None:
    rows = random.Random(2).choices(range(1, 6), k=3)
    await TB(dut, 0.2, 0.2).check_resets((3, 10, 31), 30, *rows)


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
